-- name: _used
-- In a batch the run has another name.
CASE WHEN batch.from_step = run.step_index THEN run.attempt ELSE COALESCE((
        SELECT max(used.number) FROM (
            SELECT past.number FROM redrive.attempts AS past
            WHERE past.run_id = run.id AND past.step_index = batch.from_step
            UNION ALL
            SELECT finished.attempts FROM redrive.steps AS finished
            WHERE finished.run_id = run.id AND finished.step_index = batch.from_step
        ) AS used), 0) END

-- name: restart
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET attempt = {_used}, step_index = batch.from_step, step_input = COALESCE(batch.step_input, run.step_input),
    queue = COALESCE(batch.queue, run.queue), policy_override = batch.policy_override, step_only = batch.step_only,
    has_letter = 1,
    redrives = batch.automatic + COALESCE((
        SELECT letter.redrives FROM redrive.dead_letters AS letter WHERE letter.id = batch.letter_id), 0),
    {_fresh}
FROM unnest(CAST(:run_id AS text[]), CAST(:letter_id AS text[]), CAST(:org AS text[]), CAST(:step_index AS integer[]),
    CAST(:from_step AS integer[]), CAST(:step_input AS text[]), CAST(:queue AS text[]),
    CAST(:policy_override AS text[]), CAST(:step_only AS integer[]), CAST(:automatic AS integer[]))
    AS batch (run_id, letter_id, org, step_index, from_step, step_input, queue, policy_override, step_only, automatic)
WHERE run.id = batch.run_id AND run.org = batch.org AND run.place = 'ended' AND run.state IN ('DLQ_PENDING', 'FAILED')
    AND run.step_index = batch.step_index AND EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.id = batch.letter_id AND letter.org = batch.org AND letter.run_id = run.id
            AND letter.step_index = run.step_index AND letter.state IN ('OPEN', 'EXHAUSTED'))
RETURNING run.id, run.queue

-- name: resume
-- The same names as in restart.
UPDATE redrive.runs AS run
SET attempt = {_used}, step_index = batch.from_step, step_input = COALESCE(batch.step_input, run.step_input),
    queue = COALESCE(batch.queue, run.queue), policy_override = NULL, step_only = 0, has_letter = 0,
    redrives = 0,
    {_fresh}
FROM (SELECT CAST(:run_id AS text) AS run_id, CAST(:org AS text) AS org, CAST(:step_index AS integer) AS step_index,
    CAST(:from_step AS integer) AS from_step, CAST(:step_input AS text) AS step_input, CAST(:queue AS text) AS queue)
    AS batch
WHERE run.id = batch.run_id AND run.org = batch.org AND run.place = 'ended'
    AND run.state IN ('DLQ_PENDING', 'FAILED', 'PARTIAL')
    AND run.step_index = batch.step_index AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.run_id = run.id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED'))
RETURNING run.id, run.queue

-- name: mark_replaying
-- One round trip for the whole batch.
UPDATE redrive.dead_letters AS letter
SET state = 'REPLAYING', replay_count = replay_count + 1, last_replayed_at = :now,
    last_replayed_by = batch.requested_by, replay_override = batch.policy_override,
    redrives = letter.redrives + batch.automatic, next_redrive_at = NULL, updated_at = :now
FROM unnest(CAST(:letter_id AS text[]), CAST(:org AS text[]), CAST(:requested_by AS text[]),
    CAST(:policy_override AS text[]), CAST(:automatic AS integer[]))
    AS batch (letter_id, org, requested_by, policy_override, automatic)
WHERE letter.id = batch.letter_id AND letter.org = batch.org AND letter.state IN ('OPEN', 'EXHAUSTED')
RETURNING letter.id

-- name: insert
-- One round trip for the whole batch.
INSERT INTO redrive.replays (id, org, operation_id, position, letter_id, run_id, number, step_index, from_step, mode,
    state, automatic, requested_by, requested_at, reason, policy_override, edit, fingerprint, letter_updated_at, effect,
    breaker, started_at)
SELECT batch.id, batch.org, NULL, 0, batch.letter_id, run.id, run.replays, batch.step_index, batch.from_step, batch.mode,
    'RUNNING', batch.automatic, batch.requested_by, :now, batch.reason, batch.policy_override, batch.edit,
    COALESCE(letter.fingerprint, ''), COALESCE(letter.updated_at, :now), COALESCE(letter.effect, 'idempotent'),
    letter.breaker, :now
FROM unnest(CAST(:id AS text[]), CAST(:org AS text[]), CAST(:letter_id AS text[]), CAST(:run_id AS text[]),
    CAST(:step_index AS integer[]), CAST(:from_step AS integer[]), CAST(:mode AS text[]), CAST(:automatic AS integer[]),
    CAST(:requested_by AS text[]), CAST(:reason AS text[]), CAST(:policy_override AS text[]), CAST(:edit AS text[]))
    AS batch (id, org, letter_id, run_id, step_index, from_step, mode, automatic, requested_by, reason, policy_override,
        edit)
JOIN redrive.runs AS run ON run.id = batch.run_id
LEFT JOIN redrive.dead_letters AS letter ON letter.id = batch.letter_id

-- name: pick
-- SKIP LOCKED, so that two drivers of one operation do not wait for one another; plain IN could take too many.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.replays AS item
    WHERE operation_id = :operation_id AND state = 'PLANNED' AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = item.letter_id AND other.state <> 'RESOLVED')
    ORDER BY position
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.replays
SET state = 'RUNNING', started_at = :now,
    number = (SELECT run.replays + 1 FROM redrive.runs AS run WHERE run.id = redrive.replays.run_id),
    requested_by = COALESCE((SELECT started_by FROM redrive.replay_operations WHERE id = :operation_id), requested_by)
FROM picked WHERE id = picked_id
RETURNING id, org, letter_id, run_id, step_index, from_step, mode, automatic, requested_by, reason, policy_override,
    edit

-- name: refuse
-- One round trip for the whole batch.
UPDATE redrive.replays AS replay SET state = 'REFUSED', ended_at = :now, started_at = NULL, number = NULL,
    note = batch.note
FROM unnest(CAST(:id AS text[]), CAST(:note AS text[])) AS batch (id, note)
WHERE replay.id = batch.id

-- name: situation
-- One round trip for the whole batch.
SELECT replay.id, letter.state, run.state, run.step_index, replay.step_index
FROM redrive.replays AS replay
LEFT JOIN redrive.dead_letters AS letter ON letter.id = replay.letter_id
LEFT JOIN redrive.runs AS run ON run.id = replay.run_id
WHERE replay.id IN (SELECT unnest(CAST(:id AS text[])))

-- name: known
-- One round trip for the whole batch.
SELECT id FROM redrive.replays WHERE id IN (SELECT unnest(CAST(:id AS text[])))

-- name: lock_letters
-- In order of ids, as everybody locks them; SQLite locks the whole file.
SELECT id FROM redrive.dead_letters
WHERE run_id IN (SELECT unnest(CAST(:run_id AS text[]))) AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
ORDER BY id
FOR UPDATE

-- name: resolve
-- One round trip for the whole batch.
UPDATE redrive.dead_letters AS letter
SET state = 'RESOLVED', resolved_by = last_replayed_by, resolved_at = :now, resolution = 'replayed', updated_at = :now
FROM unnest(CAST(:run_id AS text[]), CAST(:step_index AS integer[])) AS batch (run_id, step_index)
WHERE letter.run_id = batch.run_id AND letter.step_index = batch.step_index AND letter.state = 'REPLAYING'
RETURNING letter.id, letter.org, letter.last_replayed_by

-- name: supersede
-- One round trip for the whole batch.
UPDATE redrive.dead_letters AS letter
SET state = 'RESOLVED', resolved_by = last_replayed_by, resolved_at = :now, updated_at = :now,
    resolution = 'superseded: its replay has failed in another step, which has a dead letter of its own'
FROM unnest(CAST(:run_id AS text[]), CAST(:step_index AS integer[])) AS batch (run_id, step_index)
WHERE letter.run_id = batch.run_id AND letter.step_index <> batch.step_index AND letter.state = 'REPLAYING'
RETURNING letter.id, letter.org

-- name: settle
-- One round trip for the whole batch.
UPDATE redrive.replays AS replay
SET state = batch.state, ended_at = :now, fingerprint_after = batch.fingerprint_after, note = batch.note
FROM unnest(CAST(:run_id AS text[]), CAST(:state AS text[]), CAST(:fingerprint_after AS text[]),
    CAST(:note AS text[])) AS batch (run_id, state, fingerprint_after, note)
WHERE replay.run_id = batch.run_id AND replay.state = 'RUNNING'
RETURNING replay.org, replay.letter_id, replay.run_id, replay.state
