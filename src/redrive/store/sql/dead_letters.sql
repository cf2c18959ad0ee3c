-- name: _waits
CASE WHEN letter.state = 'OPEN' AND letter.next_redrive_at IS NOT NULL AND EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = letter.id AND other.state <> 'RESOLVED'
    ) THEN 1 ELSE 0 END

-- name: _line
{columns:DeadLetterLine letter except waits, message}, {_waits}, substr(letter.message, 1, 300),
    CASE WHEN EXISTS (SELECT 1 FROM ({_stuck}) AS stuck WHERE stuck.id = letter.id) THEN 1 ELSE 0 END

-- name: _whole
-- With the error from its attempt and the settings of its step.
SELECT {columns:DeadLetter},
    CASE WHEN EXISTS (SELECT 1 FROM ({_stuck}) AS stuck WHERE stuck.id = whole.id) THEN 1 ELSE 0 END
FROM (
    SELECT letter.*, {_waits} AS waits, COALESCE(past.stack, '') AS stack, COALESCE(past.public_message, '') AS public_message,
        COALESCE(past.decision, '{"code":"' || letter.reason || '"}') AS decision, known.config, known.policy
    FROM redrive.dead_letters AS letter
    LEFT JOIN redrive.attempts AS past
        ON past.run_id = letter.run_id AND past.step_index = letter.step_index AND past.number = letter.attempts
    LEFT JOIN redrive.dead_letter_settings AS known ON known.org = letter.org AND known.digest = letter.settings
) AS whole

-- name: get
{_whole} WHERE id = :id AND org = :org

-- name: of_run
-- Without the concatenation, SQLite would read all dead letters of the organization, in their order. Likewise below.
{_whole} WHERE run_id = :run_id AND (org || '') = :org ORDER BY created_at

-- name: lines
SELECT {_line} FROM redrive.dead_letters AS letter
JOIN {batch:LetterKey only id} ON letter.id = batch.id
WHERE org = :org

-- name: _stuck_ids
SELECT stuck.id FROM ({_stuck}) AS stuck WHERE stuck.org = :org

-- name: _branch
SELECT id, created_at FROM (
    SELECT id, created_at FROM redrive.dead_letters WHERE {where}
    ORDER BY created_at {direction}, id {direction} LIMIT :most
) AS branch

-- name: _ids
SELECT id FROM ({branches}) AS found ORDER BY created_at {direction}, id {direction} LIMIT :most

-- name: _page
SELECT {_line} FROM redrive.dead_letters AS letter WHERE letter.id IN ({_ids})
ORDER BY created_at {direction}, letter.id {direction}

-- name: _after
(created_at, id) {sign} (:last_at, :last_id)

-- name: _counted
SELECT 1 AS one FROM redrive.dead_letters WHERE {where}

-- name: _count
SELECT count(*) FROM ({branches} LIMIT :most) AS counted

-- name: fingerprints
SELECT DISTINCT fingerprint FROM redrive.dead_letter_counts
WHERE org = :org AND fingerprint >= :first AND fingerprint < :beyond
    AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED', 'RESOLVED', 'IGNORED', 'ARCHIVED')
LIMIT :most

-- name: lock_runs
-- The run must not be removed or replayed concurrently.
SELECT run.id FROM {_ended_runs} AS run
WHERE run.id IN (
    SELECT letter.run_id FROM redrive.dead_letters AS letter
    JOIN {batch:LetterKey only id} ON letter.id = batch.id
    WHERE letter.org = :org
)
ORDER BY run.id
FOR UPDATE

-- name: _locked
SELECT {columns:Locked letter}
FROM redrive.dead_letters AS letter

-- name: lock
{_locked}
JOIN {batch:LetterKey only id} ON letter.id = batch.id
WHERE letter.org = :org
ORDER BY letter.id
FOR UPDATE OF letter

-- name: standing
SELECT letter.id, letter.step_index, run.state, run.step_index, (
    SELECT max(newer.id) FROM redrive.dead_letters AS newer
    WHERE newer.run_id = letter.run_id AND newer.step_index = letter.step_index
        AND (newer.created_at, newer.id) > (letter.created_at, letter.id)
)
FROM redrive.dead_letters AS letter JOIN redrive.runs AS run ON run.id = letter.run_id
JOIN {batch:LetterKey only id} ON letter.id = batch.id
WHERE letter.org = :org

-- name: close
UPDATE redrive.dead_letters AS letter
SET state = :state, resolved_by = :by, resolved_at = :now, resolution = :reason, updated_at = :now
FROM {batch:ClosedLetter only id}
WHERE letter.id = batch.id AND letter.org = :org AND letter.state IN ('OPEN', 'EXHAUSTED')
RETURNING letter.id

-- name: reopen
UPDATE redrive.dead_letters AS letter
SET state = 'OPEN', resolved_by = NULL, resolved_at = NULL, resolution = NULL, exhausted_at = NULL, updated_at = :now
FROM {batch:LetterKey only id}
WHERE letter.id = batch.id AND letter.org = :org AND letter.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
RETURNING letter.id

-- name: assign
UPDATE redrive.dead_letters AS letter SET assignee = :assignee
FROM {batch:LetterAssignment only id}
WHERE letter.id = batch.id AND letter.org = :org
RETURNING letter.id

-- name: tag
UPDATE redrive.dead_letters AS letter SET tags = batch.tags
FROM {batch:LetterTags only id, tags}
WHERE letter.id = batch.id AND letter.org = :org
RETURNING letter.id

-- name: note
INSERT INTO redrive.dead_letter_notes (id, org, letter_id, at, author, body)
SELECT :note_id, org, id, :now, :author, :body FROM redrive.dead_letters WHERE id = :id AND org = :org
RETURNING {columns:Note}

-- name: notes
SELECT {columns:Note} FROM redrive.dead_letter_notes
WHERE letter_id = :id AND org = :org
ORDER BY at, id
LIMIT :most

-- name: link
INSERT INTO redrive.dead_letter_dependencies (letter_id, depends_on, org) VALUES (:id, :depends_on, :org)
ON CONFLICT DO NOTHING
RETURNING letter_id

-- name: unlink
DELETE FROM redrive.dead_letter_dependencies WHERE letter_id = :id AND depends_on = :depends_on AND org = :org
RETURNING letter_id

-- name: depends
WITH RECURSIVE needed (id) AS (
    SELECT depends_on FROM redrive.dead_letter_dependencies WHERE letter_id = :id AND org = :org
    UNION
    SELECT depends_on FROM redrive.dead_letter_dependencies JOIN needed ON letter_id = needed.id WHERE org = :org
)
SELECT id FROM needed WHERE id = :depends_on

-- name: dependencies
SELECT {_line} FROM redrive.dead_letters AS letter
JOIN redrive.dead_letter_dependencies AS dependency ON dependency.depends_on = letter.id
WHERE dependency.letter_id = :id AND (letter.org || '') = :org
ORDER BY created_at, letter.id

-- name: counts
SELECT state, category, redrive, CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts
WHERE org = :org AND (CAST(:queue AS text) IS NULL OR queue = :queue)
GROUP BY state, category, redrive HAVING sum(number) > 0
ORDER BY state, category, redrive

-- name: by_state
SELECT state, CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts GROUP BY state

-- name: figures
SELECT figure, CAST(sum(number) AS bigint) FROM redrive.dead_letter_figures
WHERE org = :org AND (CAST(:queue AS text) IS NULL OR queue = :queue)
GROUP BY figure
