-- name: _fresh
place = 'ready', state = 'RUNNING', step_state = 'PENDING', due_at = NULL, held_by = NULL, ended_at = NULL, result = NULL,
    failures = 0, rate_limit_waits = 0, holds = 0, losses = 0, isolated_crashes = 0, isolation = 0, previous_delay = NULL,
    error_class = NULL, first_failed_at = NULL, last_failed_at = NULL, slots = NULL, progress = NULL,
    cancel_requested_at = NULL, replays = replays + 1

-- name: _used
-- Earlier attempts of the step, wherever they are stored: their numbers are not reused.
CASE WHEN batch.from_step = run.step_index THEN run.attempt ELSE COALESCE((
        SELECT max(used.number) FROM (
            SELECT past.number FROM redrive.attempts AS past
            WHERE past.run_id = run.id AND past.step_index = batch.from_step
            UNION ALL
            SELECT finished.attempts FROM redrive.steps AS finished
            WHERE finished.run_id = run.id AND finished.step_index = batch.from_step
        ) AS used), 0) END

-- name: _redriven
-- Automatic redrives belong to a step: those that its live dead letter has used, and this one. An earlier step, to which a
-- replay goes back, has its own count.
batch.automatic + COALESCE((
        SELECT letter.redrives FROM redrive.dead_letters AS letter
        WHERE letter.run_id = run.id AND letter.step_index = batch.from_step AND letter.state IN ('OPEN', 'EXHAUSTED')), 0)

-- name: _later_letter
-- A later step of the run has a live dead letter, which a replay of only this step would leave behind.
SELECT 1 FROM redrive.dead_letters AS later
        WHERE later.run_id = run.id AND later.step_index > run.step_index
            AND later.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')

-- name: restart
UPDATE redrive.runs AS run
SET attempt = {_used}, step_index = batch.from_step, step_input = COALESCE(batch.step_input, run.step_input),
    queue = COALESCE(batch.queue, run.queue), policy_override = batch.policy_override, step_only = batch.step_only,
    has_letter = 1,
    redrives = {_redriven}, {_fresh}
FROM {batch:NewReplay only run_id, letter_id, org, step_index, from_step, step_input, queue, policy_override, step_only, automatic}
WHERE run.id = batch.run_id AND run.org = batch.org AND run.place = 'ended' AND run.state IN ('DLQ_PENDING', 'FAILED')
    AND run.step_index = batch.step_index AND EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.id = batch.letter_id AND letter.org = batch.org AND letter.run_id = run.id
            AND letter.step_index >= run.step_index AND letter.state IN ('OPEN', 'EXHAUSTED'))
    AND (batch.step_only = 0 OR NOT EXISTS ({_later_letter}))
RETURNING run.id, run.queue

-- name: resume
UPDATE redrive.runs AS run
SET attempt = {_used}, step_index = batch.from_step, step_input = COALESCE(batch.step_input, run.step_input),
    queue = COALESCE(batch.queue, run.queue), policy_override = NULL, step_only = 0, has_letter = 0,
    redrives = 0,
    {_fresh}
FROM {batch:NewReplay only run_id, org, step_index, from_step, step_input, queue}
WHERE run.id = batch.run_id AND run.org = batch.org AND run.place = 'ended'
    AND run.state IN ('DLQ_PENDING', 'FAILED', 'PARTIAL')
    AND run.step_index = batch.step_index AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.run_id = run.id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED'))
RETURNING run.id, run.queue

-- name: live
SELECT id FROM redrive.dead_letters WHERE run_id = :run_id AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')

-- name: known
SELECT replay.id FROM redrive.replays AS replay
JOIN {batch:NewReplay only id} ON replay.id = batch.id

-- name: lock_letters
-- In order of ids, as all transactions lock dead letters. PostgreSQL must not use the index by state: if it expects few
-- live dead letters, it would compare each of them with the whole batch.
SELECT {columns:LockedLetter letter} FROM redrive.dead_letters AS letter
JOIN {batch:Settlement only run_id} ON letter.run_id = batch.run_id
WHERE (letter.state || '') IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
ORDER BY letter.id
FOR UPDATE OF letter

-- name: keep_successes
INSERT INTO redrive.attempts (run_id, step_index, number, outcome, worker, code_version, started_at, ended_at,
    reason, explanation, decision, replay, output)
SELECT step.run_id, step.step_index, step.attempts, 'succeeded', step.worker, step.code_version, step.started_at,
    COALESCE(step.ended_at, :now), 'succeeded', '', '{"code":"succeeded"}', run.replays - 1,
    step.output
FROM redrive.steps AS step JOIN redrive.runs AS run ON run.id = step.run_id
WHERE step.run_id = :run_id AND step.step_index >= :from_step
ON CONFLICT (run_id, step_index, number) DO NOTHING

-- name: forget_steps
DELETE FROM redrive.steps WHERE run_id = :run_id AND step_index >= :from_step

-- name: mark_replaying
-- All live dead letters of the run: if an earlier replay went back and failed, a later step has one too. The state is
-- written as in lock_letters, for the same reason; the organization too, because SQLite would read all of its dead letters.
UPDATE redrive.dead_letters AS letter
SET state = 'REPLAYING', last_replayed_at = :now, last_replayed_by = batch.requested_by, next_redrive_at = NULL,
    replay_count = replay_count + CASE WHEN letter.id = batch.letter_id THEN 1 ELSE 0 END,
    replay_override = CASE WHEN letter.id = batch.letter_id THEN batch.policy_override ELSE replay_override END,
    redrives = letter.redrives + CASE WHEN letter.id = batch.letter_id THEN batch.automatic ELSE 0 END,
    updated_at = :now
FROM {batch:NewReplay only letter_id, run_id, org, requested_by, policy_override, automatic}
WHERE letter.run_id = batch.run_id AND (letter.org || '') = batch.org AND (letter.state || '') IN ('OPEN', 'EXHAUSTED')
RETURNING letter.id, letter.run_id

-- name: insert
INSERT INTO redrive.replays (id, org, operation_id, position, letter_id, run_id, number, step_index, from_step, mode,
    state, automatic, requested_by, requested_at, reason, policy_override, edit, fingerprint, letter_updated_at, effect,
    breaker, started_at)
SELECT batch.id, batch.org, NULL, 0, batch.letter_id, run.id, run.replays, batch.step_index, batch.from_step, batch.mode,
    'RUNNING', batch.automatic, batch.requested_by, :now, batch.reason, batch.policy_override, batch.edit,
    COALESCE(letter.fingerprint, ''), COALESCE(letter.updated_at, :now), COALESCE(letter.effect, 'idempotent'),
    letter.breaker, :now
FROM {batch:NewReplay only id, org, letter_id, run_id, step_index, from_step, mode, automatic, requested_by, reason, policy_override, edit}
JOIN redrive.runs AS run ON run.id = batch.run_id
LEFT JOIN redrive.dead_letters AS letter ON letter.id = batch.letter_id
RETURNING {columns:Replay}

-- name: _free
NOT EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = item.letter_id AND other.state <> 'RESOLVED')

-- name: _picked
-- Without a number, an item cannot start: its dead letter or its run is not as it was planned.
SET state = 'RUNNING', started_at = :now,
    requested_by = COALESCE((SELECT started_by FROM redrive.replay_operations WHERE id = :operation_id), requested_by),
    number = (
        SELECT COALESCE(run.replays, 0) + 1 FROM {_ended_runs} AS run
        JOIN redrive.dead_letters AS letter ON letter.id = redrive.replays.letter_id
        WHERE run.id = redrive.replays.run_id AND {_has_ended} AND run.state IN ('DLQ_PENDING', 'FAILED')
            AND run.step_index = redrive.replays.step_index AND letter.state IN ('OPEN', 'EXHAUSTED')
            AND letter.fingerprint = redrive.replays.fingerprint
            AND letter.updated_at = redrive.replays.letter_updated_at)

-- name: pick
UPDATE redrive.replays
{_picked}
WHERE id IN (
    SELECT id FROM redrive.replays AS item
    WHERE operation_id = :operation_id AND state = 'PLANNED' AND {_free}
    ORDER BY position
    LIMIT :most
)
RETURNING {columns:NewReplay except step_input, queue}, number

-- name: refuse
UPDATE redrive.replays AS replay SET state = 'REFUSED', ended_at = :now, started_at = NULL, number = NULL,
    note = batch.note
FROM {batch:RefusedItem}
WHERE replay.id = batch.id

-- name: situation
SELECT replay.id, letter.state, run.state, run.step_index, replay.step_index, letter.fingerprint, replay.fingerprint
FROM redrive.replays AS replay
JOIN {batch:NewReplay only id} ON replay.id = batch.id
LEFT JOIN redrive.dead_letters AS letter ON letter.id = replay.letter_id
LEFT JOIN redrive.runs AS run ON run.id = replay.run_id

-- name: get
SELECT {columns:Replay} FROM redrive.replays WHERE id = :id AND org = :org

-- name: of_letter
SELECT {columns:Replay} FROM redrive.replays
WHERE run_id = (SELECT letter.run_id FROM redrive.dead_letters AS letter WHERE letter.id = :letter_id)
    AND letter_id = :letter_id AND org = :org
ORDER BY requested_at DESC, id DESC
LIMIT :most

-- name: of_run
SELECT {columns:Replay} FROM redrive.replays
WHERE run_id = :run_id AND org = :org AND number IS NOT NULL
ORDER BY number

-- name: close
-- The dead letters are locked, so their states are known.
UPDATE redrive.dead_letters AS letter
SET state = batch.state, resolved_by = batch.by, resolved_at = :now, resolution = batch.resolution, updated_at = :now
FROM {batch:ClosedByReplay}
WHERE letter.id = batch.id

-- name: reopen
-- The replay has failed in an earlier step, so the state is that from before the replay.
UPDATE redrive.dead_letters AS letter
SET state = CASE WHEN letter.exhausted_at IS NULL THEN 'OPEN' ELSE 'EXHAUSTED' END, updated_at = :now
FROM {batch:ReopenedByReplay}
WHERE letter.id = batch.id
RETURNING letter.id, letter.state

-- name: settle
-- The state is written as in lock_letters, for the same reason.
UPDATE redrive.replays AS replay
SET state = batch.state, ended_at = :now, fingerprint_after = batch.fingerprint_after, note = batch.note
FROM {batch:Settlement only run_id, state, fingerprint_after, note}
WHERE replay.run_id = batch.run_id AND (replay.state || '') = 'RUNNING'
RETURNING replay.org, replay.letter_id, replay.run_id, replay.state
