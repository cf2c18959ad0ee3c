-- name: _fence
-- || '' keeps PostgreSQL from using the index to read all leases.
run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'

-- name: _clean
failures = 0, rate_limit_waits = 0, holds = 0, losses = 0, isolated_crashes = 0, isolation = 0, previous_delay = NULL,
    error_class = NULL, first_failed_at = NULL, last_failed_at = NULL, slots = NULL, progress = NULL

-- name: _complete
UPDATE redrive.runs AS run
SET place = 'ended', state = 'SUCCESS', step_state = 'SUCCESS', result = batch.result, ended_at = :now,
    leased_until = NULL, {_clean}

-- name: complete
{_complete}
FROM {batch:Completed}
WHERE {_fence}
RETURNING run.id, run.place

-- name: complete_step
-- The last of several steps: the run ends, and the step is inserted.
{_complete}
FROM {batch:CompletedStep}
WHERE {_fence}
RETURNING run.id, run.place;
INSERT INTO redrive.steps ({_step})
SELECT run.id, run.step_index, batch.name, batch.task, 'SUCCESS', batch.result, run.attempt, run.worker, run.code_version,
    run.attempt_started_at, :now
FROM redrive.runs AS run
JOIN {batch:CompletedStep only id, name, task, result} ON run.id = batch.id

-- name: complete_partly
UPDATE redrive.runs AS run
SET place = 'ended', state = 'PARTIAL', step_state = 'SUCCESS', ended_at = :now, leased_until = NULL, {_clean}
FROM {batch:CompletedPartly}
WHERE {_fence}
RETURNING run.id, run.place

-- name: _used_before
-- Earlier attempts of the next step, if a replay went back to a step before it: their numbers are not reused.
CASE WHEN replays = 0 THEN 0 ELSE COALESCE((
        SELECT max(past.number) FROM redrive.attempts AS past
        WHERE past.run_id = run.id AND past.step_index = run.step_index + 1), 0) END

-- name: _redriven_before
-- Automatic redrives that the dead letter of the next step has used, if a replay went back to a step before it.
CASE WHEN replays = 0 THEN 0 ELSE COALESCE((
        SELECT letter.redrives FROM redrive.dead_letters AS letter
        WHERE letter.run_id = run.id AND letter.step_index = run.step_index + 1
            AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')), 0) END

-- name: _prolonged
-- A lease with more than half of its time left is not renewed: on PostgreSQL, no index changes then.
CASE WHEN run.leased_until > :now + batch.ttl / 2 THEN run.leased_until ELSE :now + batch.ttl END

-- name: _advance
UPDATE redrive.runs AS run
SET step_index = step_index + 1, step_state = 'RUNNING', step_input = batch.step_input, queue = batch.queue, attempt = 1,
    epoch = run.epoch + 1, attempt_started_at = :now, leased_until = {_prolonged}, policy_override = NULL,
    redrives = {_redriven_before}, {_clean}

-- name: advance_step
-- As advance, and also inserts the finished step.
{_advance}
FROM {batch:AdvancedStep}
WHERE {_fence} AND cancel_requested_at IS NULL
RETURNING run.id, run.place;
INSERT INTO redrive.steps ({_step})
SELECT run.id, run.step_index - 1, batch.name, batch.task, 'SUCCESS', batch.step_input, batch.attempts, run.worker,
    run.code_version, batch.started_at, :now
FROM redrive.runs AS run
JOIN {batch:AdvancedStep only id, name, task, step_input, attempts, started_at} ON run.id = batch.id

-- name: advance
-- The next step starts under the same lease.
{_advance}
FROM {batch:Advanced}
WHERE {_fence} AND batch.in_place = 1 AND cancel_requested_at IS NULL
RETURNING run.id, run.place

-- name: hand_over
-- The next step starts under a new lease.
UPDATE redrive.runs AS run
SET step_index = step_index + 1, step_state = 'PENDING', step_input = batch.step_input, queue = batch.queue,
    place = 'ready', attempt = {_used_before}, attempt_started_at = NULL, leased_until = NULL, policy_override = NULL,
    redrives = {_redriven_before}, {_clean}
FROM {batch:Advanced}
WHERE {_fence}
RETURNING run.id, run.place

-- name: _failure_times
first_failed_at = CASE WHEN batch.failed = 1 THEN COALESCE(first_failed_at, :now) ELSE first_failed_at END,
    last_failed_at = CASE WHEN batch.failed = 1 THEN :now ELSE last_failed_at END

-- name: _not_started
-- A run that returns to its queue before its first attempt is pending again, as if no worker had claimed it.
run.step_index = 0 AND run.replays = 0 AND run.attempt

-- name: reschedule
UPDATE redrive.runs AS run
SET place = CASE WHEN cancel_requested_at IS NULL THEN batch.place ELSE 'ready' END, step_state = batch.step_state,
    state = CASE WHEN {_not_started} = batch.given_back THEN 'PENDING' ELSE 'RUNNING' END,
    started_at = CASE WHEN {_not_started} = batch.given_back THEN NULL ELSE run.started_at END,
    due_at = CASE WHEN batch.place = 'waiting' AND cancel_requested_at IS NULL THEN :now + batch.delay END,
    attempt = run.attempt - batch.given_back, failures = batch.failures, rate_limit_waits = batch.rate_limit_waits,
    holds = batch.holds, losses = batch.losses, isolated_crashes = batch.isolated_crashes, isolation = batch.isolation,
    previous_delay = batch.previous_delay, error_class = batch.error_class, {_failure_times},
    leased_until = NULL, slots = NULL
FROM {batch:Rescheduled}
WHERE {_fence}
RETURNING run.id, run.place

-- name: stop
UPDATE redrive.runs AS run
SET place = 'ended', state = batch.state, step_state = batch.step_state, ended_at = :now,
    failures = batch.failures, error_class = batch.error_class, {_failure_times},
    leased_until = NULL, slots = NULL
FROM {batch:Stopped}
WHERE {_fence}
RETURNING run.id, run.place

-- name: park
UPDATE redrive.runs AS run
SET place = CASE WHEN cancel_requested_at IS NULL THEN 'held' ELSE 'ready' END,
    held_by = CASE WHEN cancel_requested_at IS NULL THEN batch.held_by END,
    state = CASE WHEN {_not_started} = 1 THEN 'PENDING' ELSE 'RUNNING' END,
    started_at = CASE WHEN {_not_started} = 1 THEN NULL ELSE run.started_at END,
    step_state = batch.step_state, attempt = run.attempt - 1, holds = batch.holds,
    isolation = CASE WHEN isolation > 0 THEN 1 ELSE 0 END, leased_until = NULL
FROM {batch:Parked}
WHERE {_fence}
RETURNING run.id, run.place

-- name: occupied
-- Lock the run: its lease must not be taken over before its slots are noted.
SELECT run.id, run.slots FROM redrive.runs AS run
JOIN {batch:Occupied only id, token, epoch} ON {_fence}
FOR UPDATE OF run

-- name: occupy
UPDATE redrive.runs AS run SET slots = batch.slots
FROM {batch:Occupied}
WHERE {_fence}
RETURNING run.id

-- name: progress
UPDATE redrive.runs AS run SET progress = batch.progress
FROM {batch:Progress}
WHERE {_fence}

-- name: settled
SELECT run.id, run.token, run.epoch, run.place FROM redrive.runs AS run
JOIN {batch:Completed only id} ON run.id = batch.id

-- name: insert_attempt
-- Workers of the version before read the explanation; it stays empty.
INSERT INTO redrive.attempts ({columns:AttemptRecord except ended_at, output}, ended_at, explanation)
SELECT {columns:AttemptRecord batch except ended_at, output}, :now, ''
FROM {batch:AttemptRecord except ended_at, output}
ON CONFLICT (run_id, step_index, number) DO NOTHING

-- name: _step
run_id, step_index, name, task, state, output, attempts, worker, code_version, started_at, ended_at

-- name: _step_again
-- A step that a replay executes again has a row already.
ON CONFLICT (run_id, step_index) DO UPDATE
SET {assign:FinishedStep except run_id, step_index, name, task}

-- name: insert_step
INSERT INTO redrive.steps ({columns:FinishedStep except ended_at}, ended_at)
SELECT {columns:FinishedStep batch except ended_at}, :now
FROM {batch:FinishedStep except ended_at}
{_step_again}

-- name: insert_event
INSERT INTO redrive.run_events ({columns:RunEvent except at}, at)
SELECT {columns:RunEvent batch except at}, :now
FROM {batch:RunEvent except at}

-- name: _set_by_database
org, workflow, step_index, queue, attempts, failures, first_failed_at, last_failed_at, created_at, updated_at,
    replay_count, priority, next_redrive_at, exhausted_at

-- name: _set_by_people
last_replayed_at, last_replayed_by, replay_override, resolved_by, resolved_at, resolution

-- name: insert_settings
INSERT INTO redrive.dead_letter_settings (org, digest, config, policy)
SELECT batch.org, batch.settings, batch.config, batch.policy FROM {batch:NewDeadLetter only org, settings, config, policy}
ON CONFLICT (org, digest) DO NOTHING

-- name: _elsewhere
-- Columns that are read from the attempt, from the settings of the step and from the dead letters it waits for.
stack, public_message, decision, config, policy, waits

-- name: insert_dead_letter
-- If the step has a live dead letter, it gets the newer error and keeps what people did with it.
INSERT INTO redrive.dead_letters (
    {columns:DeadLetter except {_set_by_database}, {_set_by_people}, {_elsewhere}}, settings, {_set_by_database})
SELECT {columns:DeadLetter batch except {_set_by_database}, {_set_by_people}, {_elsewhere}}, batch.settings,
    run.org, run.workflow, run.step_index, run.queue, run.attempt, COALESCE(run.failures, 0), run.first_failed_at,
    run.last_failed_at, :now, :now, 0, run.priority, :now + batch.redrive_delay,
    CASE WHEN batch.state = 'EXHAUSTED' THEN :now END
FROM {batch:NewDeadLetter except {_set_by_database}, {_set_by_people}, {_elsewhere}, pattern}
JOIN {_ended_runs} AS run ON run.id = batch.run_id
WHERE true
ON CONFLICT (run_id, step_index, (CASE WHEN state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') THEN '' ELSE id END)) DO UPDATE
SET {assign:DeadLetter except id, org, run_id, step_index, step, task, workflow, queue, idempotency_key, correlation_id,
        tags, metadata, created_at, replay_count, priority, assignee, {_set_by_people}, {_elsewhere}},
    settings = excluded.settings
RETURNING redrive.dead_letters.run_id, redrive.dead_letters.id

-- name: free_slots
UPDATE redrive.limits SET in_use = CASE WHEN in_use > :freed THEN in_use - :freed ELSE 0 END WHERE name = :name
