-- name: _fresh
place = 'ready', state = 'RUNNING', step_state = 'PENDING', due_at = NULL, held_by = NULL, ended_at = NULL, result = NULL,
    failures = 0, rate_limit_waits = 0, holds = 0, losses = 0, lonely_losses = 0, alone = 0, previous_delay = NULL,
    error_class = NULL, first_failed_at = NULL, last_failed_at = NULL, slots = NULL, progress = NULL,
    cancel_requested_at = NULL, replays = replays + 1

-- name: _used
-- Attempts of the step that have been, wherever they are kept: their numbers are not given out again.
CASE WHEN :from_step = step_index THEN attempt ELSE COALESCE((
        SELECT max(used.number) FROM (
            SELECT past.number FROM redrive.attempts AS past
            WHERE past.run_id = redrive.runs.id AND past.step_index = :from_step
            UNION ALL
            SELECT finished.attempts FROM redrive.steps AS finished
            WHERE finished.run_id = redrive.runs.id AND finished.step_index = :from_step
        ) AS used), 0) END

-- name: restart
UPDATE redrive.runs
SET attempt = {_used}, step_index = :from_step, step_input = COALESCE(:step_input, step_input),
    queue = COALESCE(:queue, queue), policy_override = :policy_override, step_only = :step_only, has_letter = 1,
    redrives = :automatic + COALESCE((
        SELECT letter.redrives FROM redrive.dead_letters AS letter WHERE letter.id = :letter_id), 0),
    {_fresh}
WHERE id = :run_id AND org = :org AND place = 'ended' AND state IN ('DLQ_PENDING', 'FAILED')
    AND step_index = :step_index AND EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.id = :letter_id AND letter.org = :org AND letter.run_id = redrive.runs.id
            AND letter.step_index = redrive.runs.step_index AND letter.state IN ('OPEN', 'EXHAUSTED'))
RETURNING id, queue

-- name: resume
UPDATE redrive.runs
SET attempt = {_used}, step_index = :from_step, step_input = COALESCE(:step_input, step_input),
    queue = COALESCE(:queue, queue), policy_override = NULL, step_only = 0, has_letter = 0, redrives = 0,
    {_fresh}
WHERE id = :run_id AND org = :org AND place = 'ended' AND state IN ('DLQ_PENDING', 'FAILED', 'PARTIAL')
    AND step_index = :step_index AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.run_id = redrive.runs.id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED'))
RETURNING id, queue

-- name: live
SELECT id FROM redrive.dead_letters WHERE run_id = :run_id AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')

-- name: known
SELECT id FROM redrive.replays WHERE id = :id

-- name: lock_letters
SELECT id FROM redrive.dead_letters WHERE run_id = :run_id AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')

-- name: keep_successes
INSERT INTO redrive.attempts (run_id, step_index, number, outcome, worker, code_version, started_at, ended_at,
    reason, explanation, replay, output)
SELECT step.run_id, step.step_index, step.attempts, 'succeeded', step.worker, step.code_version, step.started_at,
    COALESCE(step.ended_at, :now), 'succeeded', 'the attempt succeeded; a replay went back behind it', run.replays - 1,
    step.output
FROM redrive.steps AS step JOIN redrive.runs AS run ON run.id = step.run_id
WHERE step.run_id = :run_id AND step.step_index >= :from_step
ON CONFLICT (run_id, step_index, number) DO NOTHING

-- name: forget_steps
DELETE FROM redrive.steps WHERE run_id = :run_id AND step_index >= :from_step

-- name: mark_replaying
UPDATE redrive.dead_letters
SET state = 'REPLAYING', replay_count = replay_count + 1, last_replayed_at = :now, last_replayed_by = :requested_by,
    replay_override = :policy_override, redrives = redrives + :automatic, next_redrive_at = NULL, updated_at = :now
WHERE id = :letter_id AND org = :org AND state IN ('OPEN', 'EXHAUSTED')
RETURNING id

-- name: insert
INSERT INTO redrive.replays (id, org, operation_id, position, letter_id, run_id, number, step_index, from_step, mode,
    state, automatic, requested_by, requested_at, reason, policy_override, edit, fingerprint, letter_updated_at, effect,
    breaker, started_at)
SELECT :id, :org, NULL, 0, :letter_id, run.id, run.replays, :step_index, :from_step, :mode, 'RUNNING',
    :automatic, :requested_by, :now, :reason, :policy_override, :edit, COALESCE(letter.fingerprint, ''),
    COALESCE(letter.updated_at, :now), COALESCE(letter.effect, 'idempotent'), letter.breaker, :now
FROM redrive.runs AS run LEFT JOIN redrive.dead_letters AS letter ON letter.id = :letter_id
WHERE run.id = :run_id

-- name: pick
UPDATE redrive.replays
SET state = 'RUNNING', started_at = :now,
    number = (SELECT run.replays + 1 FROM redrive.runs AS run WHERE run.id = redrive.replays.run_id),
    requested_by = COALESCE((SELECT started_by FROM redrive.replay_operations WHERE id = :operation_id), requested_by)
WHERE id IN (
    SELECT id FROM redrive.replays AS item
    WHERE operation_id = :operation_id AND state = 'PLANNED' AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = item.letter_id AND other.state <> 'RESOLVED')
    ORDER BY position
    LIMIT :most
)
RETURNING id, org, letter_id, run_id, step_index, from_step, mode, automatic, requested_by, reason, policy_override,
    edit

-- name: refuse
UPDATE redrive.replays SET state = 'REFUSED', ended_at = :now, started_at = NULL, number = NULL, note = :note
WHERE id = :id

-- name: situation
SELECT replay.id, letter.state, run.state, run.step_index, replay.step_index
FROM redrive.replays AS replay
LEFT JOIN redrive.dead_letters AS letter ON letter.id = replay.letter_id
LEFT JOIN redrive.runs AS run ON run.id = replay.run_id
WHERE replay.id = :id

-- name: _replay
id, org, operation_id, position, letter_id, run_id, step_index, from_step, mode, state, automatic, requested_by,
    requested_at, reason, policy_override, edit, fingerprint, effect, breaker, started_at, ended_at,
    fingerprint_after, note, number

-- name: get
SELECT {_replay} FROM redrive.replays WHERE id = :id AND org = :org

-- name: of_letter
SELECT {_replay} FROM redrive.replays
WHERE letter_id = :letter_id AND org = :org
ORDER BY requested_at DESC, id DESC
LIMIT :most

-- name: of_run
SELECT {_replay} FROM redrive.replays
WHERE run_id = :run_id AND org = :org AND number IS NOT NULL
ORDER BY number

-- name: resolve
UPDATE redrive.dead_letters
SET state = 'RESOLVED', resolved_by = last_replayed_by, resolved_at = :now, resolution = 'replayed', updated_at = :now
WHERE run_id = :run_id AND step_index = :step_index AND state = 'REPLAYING'
RETURNING id, org, last_replayed_by

-- name: supersede
UPDATE redrive.dead_letters
SET state = 'RESOLVED', resolved_by = last_replayed_by, resolved_at = :now, updated_at = :now,
    resolution = 'superseded: its replay has failed in another step, which has a dead letter of its own'
WHERE run_id = :run_id AND step_index <> :step_index AND state = 'REPLAYING'
RETURNING id, org

-- name: ignore
UPDATE redrive.dead_letters
SET state = 'IGNORED', resolved_by = :by, resolved_at = :now, resolution = 'the run was cancelled',
    updated_at = :now
WHERE run_id = :run_id AND state = 'REPLAYING'
RETURNING id, org

-- name: settle
UPDATE redrive.replays
SET state = :state, ended_at = :now, fingerprint_after = :fingerprint_after, note = :note
WHERE run_id = :run_id AND state = 'RUNNING'
RETURNING org, letter_id, run_id, state
