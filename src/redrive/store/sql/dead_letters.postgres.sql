-- name: lines
-- One round trip for the whole batch.
SELECT {_line} FROM redrive.dead_letters AS letter
JOIN unnest(CAST(:id AS text[])) AS batch (id) ON letter.id = batch.id
WHERE org = :org

-- name: lock_runs
-- SQLite locks the whole file, PostgreSQL the rows: a run must not be removed, or replayed, in this moment.
SELECT id FROM redrive.runs
WHERE id IN (
    SELECT run_id FROM redrive.dead_letters AS letter
    JOIN unnest(CAST(:id AS text[])) AS batch (id) ON letter.id = batch.id
    WHERE letter.org = :org
)
ORDER BY id
FOR UPDATE

-- name: lock
-- SQLite locks the whole file, PostgreSQL the rows.
{_locked}
JOIN unnest(CAST(:id AS text[])) AS batch (id) ON letter.id = batch.id
WHERE letter.org = :org
ORDER BY letter.id
FOR UPDATE OF letter

-- name: standing
-- One round trip for the whole batch.
SELECT letter.id, letter.step_index, run.state, run.step_index, (
    SELECT max(newer.id) FROM redrive.dead_letters AS newer
    WHERE newer.run_id = letter.run_id AND newer.step_index = letter.step_index
        AND (newer.created_at, newer.id) > (letter.created_at, letter.id)
)
FROM redrive.dead_letters AS letter JOIN redrive.runs AS run ON run.id = letter.run_id
JOIN unnest(CAST(:id AS text[])) AS batch (id) ON letter.id = batch.id
WHERE letter.org = :org

-- name: close
-- One round trip for the whole batch.
UPDATE redrive.dead_letters
SET state = :state, resolved_by = :by, resolved_at = :now, resolution = :reason, updated_at = :now
FROM unnest(CAST(:id AS text[])) AS batch (letter_id)
WHERE id = batch.letter_id AND org = :org AND state IN ('OPEN', 'EXHAUSTED')
RETURNING id

-- name: reopen
-- One round trip for the whole batch.
UPDATE redrive.dead_letters
SET state = 'OPEN', resolved_by = NULL, resolved_at = NULL, resolution = NULL, exhausted_at = NULL, updated_at = :now
FROM unnest(CAST(:id AS text[])) AS batch (letter_id)
WHERE id = batch.letter_id AND org = :org AND state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
RETURNING id

-- name: assign
-- One round trip for the whole batch.
UPDATE redrive.dead_letters SET assignee = :assignee
FROM unnest(CAST(:id AS text[])) AS batch (letter_id)
WHERE id = batch.letter_id AND org = :org
RETURNING id

-- name: tag
-- One round trip for the whole batch.
UPDATE redrive.dead_letters SET tags = batch.tags
FROM unnest(CAST(:id AS text[]), CAST(:tags AS text[])) AS batch (letter_id, tags)
WHERE id = batch.letter_id AND org = :org
RETURNING id
