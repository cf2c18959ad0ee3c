-- name: _fence
-- A lease is a separate row, which exists while a worker holds the run.
lease.id = batch.id AND lease.token = batch.token AND lease.epoch = batch.epoch

-- name: _completed
-- The columns that a run keeps if it ended without a failure.
INSERT INTO redrive.ended ({_kept_at_the_end}, {_replayed}, state, step_state, ended_at, result)
SELECT {_kept_at_the_end}, {_replayed_or_null}

-- name: complete
-- The work moves from leases into ended.
WITH gone AS (
    DELETE FROM redrive.leases AS lease USING {batch:Completed} WHERE {_fence} RETURNING lease.*, batch.result
)
{_completed}, 'SUCCESS', 'SUCCESS', :now, result FROM gone
RETURNING id, 'ended'

-- name: complete_step
-- The work moves from leases into ended, and one statement writes both tables.
WITH gone AS (
    DELETE FROM redrive.leases AS lease USING {batch:CompletedStep} WHERE {_fence}
    RETURNING lease.*, batch.result, batch.name, batch.task
), step AS (
    INSERT INTO redrive.steps ({_step})
    SELECT id, step_index, name, task, 'SUCCESS', result, attempt, worker, code_version, attempt_started_at, :now FROM gone
)
{_completed}, 'SUCCESS', 'SUCCESS', :now, result FROM gone
RETURNING id, 'ended'

-- name: complete_partly
-- As complete.
WITH gone AS (
    DELETE FROM redrive.leases AS lease USING {batch:CompletedPartly} WHERE {_fence} RETURNING lease.*
)
{_completed}, 'PARTIAL', 'SUCCESS', :now, CAST(NULL AS text) FROM gone
RETURNING id, 'ended'

-- name: _used_before
-- As in records.sql; the row is the lease.
CASE WHEN lease.replays = 0 THEN 0 ELSE COALESCE((
        SELECT max(past.number) FROM redrive.attempts AS past
        WHERE past.run_id = lease.id AND past.step_index = lease.step_index + 1), 0) END

-- name: _redriven_before
-- As in records.sql; the row is the lease.
CASE WHEN lease.replays = 0 THEN 0 ELSE COALESCE((
        SELECT letter.redrives FROM redrive.dead_letters AS letter
        WHERE letter.run_id = lease.id AND letter.step_index = lease.step_index + 1
            AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')), 0) END

-- name: _prolonged
-- As in records.sql; the row is the lease.
CASE WHEN lease.leased_until > :now + batch.ttl / 2 THEN lease.leased_until ELSE :now + batch.ttl END

-- name: _advance
-- The lease stays in its table, and no index changes.
UPDATE redrive.leases AS lease
SET step_index = lease.step_index + 1, step_input = batch.step_input, queue = batch.queue, attempt = 1,
    epoch = lease.epoch + 1, attempt_started_at = :now, leased_until = {_prolonged}, policy_override = NULL,
    redrives = {_redriven_before}, {_clean}

-- name: advance_step
-- As advance, and one statement writes both tables.
WITH moved AS (
    {_advance}
    FROM {batch:AdvancedStep}
    WHERE {_fence} AND lease.cancel_requested_at IS NULL
    RETURNING lease.id, lease.step_index - 1 AS step_index, batch.name, batch.task, batch.step_input, batch.attempts,
        lease.worker, lease.code_version, batch.started_at
)
INSERT INTO redrive.steps ({_step})
SELECT id, step_index, name, task, 'SUCCESS', step_input, attempts, worker, code_version, started_at, :now FROM moved
RETURNING run_id AS id, 'leased'

-- name: advance
-- A lease is a separate row.
{_advance}
FROM {batch:Advanced}
WHERE {_fence} AND batch.in_place = 1 AND lease.cancel_requested_at IS NULL
RETURNING lease.id, 'leased'

-- name: _reset_by_steps
step_index, step_input, queue, attempt, policy_override, redrives, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, previous_delay, error_class, first_failed_at, last_failed_at, progress,
    attempt_started_at

-- name: hand_over
-- The work moves from leases into ready.
WITH gone AS (
    DELETE FROM redrive.leases AS lease USING {batch:Advanced except in_place, ttl} WHERE {_fence}
    RETURNING {columns:WorkRow lease except {_reset_by_steps}}, lease.step_index + 1 AS step_index, batch.step_input,
        batch.queue, {_used_before} AS attempt, {_redriven_before} AS redrives
)
INSERT INTO redrive.ready ({columns:WorkRow except {_reset_by_steps}}, step_index, step_input, queue, attempt, redrives,
    failures, rate_limit_waits, holds, losses, isolated_crashes, isolation, place, state, step_state)
SELECT {columns:WorkRow except {_reset_by_steps}}, step_index, step_input, queue, attempt, redrives,
    0, 0, 0, 0, 0, 0, 'ready', 'RUNNING', 'PENDING'
FROM gone
RETURNING id, place

-- name: _failure_times
-- As in records.sql; the row is the lease.
CASE WHEN batch.failed = 1 THEN COALESCE(lease.first_failed_at, :now) ELSE lease.first_failed_at END AS first_failed_at,
        CASE WHEN batch.failed = 1 THEN :now ELSE lease.last_failed_at END AS last_failed_at

-- name: _set_by_retries
attempt, failures, rate_limit_waits, holds, losses, isolated_crashes, isolation, previous_delay, error_class,
    first_failed_at, last_failed_at, started_at

-- name: _not_started
-- As in records.sql; the row is the lease.
lease.step_index = 0 AND lease.replays = 0 AND lease.attempt

-- name: reschedule
-- The work moves from leases into ready or idle.
WITH moved AS (
    DELETE FROM redrive.leases AS lease USING {batch:Rescheduled} WHERE {_fence}
    RETURNING {columns:WorkRow lease except {_set_by_retries}}, lease.attempt - batch.given_back AS attempt, batch.failures,
        batch.rate_limit_waits, batch.holds, batch.losses, batch.isolated_crashes, batch.isolation, batch.previous_delay,
        batch.error_class, {_failure_times},
        CASE WHEN lease.cancel_requested_at IS NULL THEN batch.place ELSE 'ready' END AS place,
        CASE WHEN {_not_started} = batch.given_back THEN 'PENDING' ELSE 'RUNNING' END AS state,
        CASE WHEN {_not_started} = batch.given_back THEN NULL ELSE lease.started_at END AS started_at, batch.step_state,
        CASE WHEN batch.place = 'waiting' AND lease.cancel_requested_at IS NULL THEN :now + batch.delay END AS due_at,
        CAST(NULL AS text) AS held_by
), {_queued}
SELECT id, place FROM moved

-- name: park
-- The work moves from leases into idle or, if the run is cancelled, into ready.
WITH moved AS (
    DELETE FROM redrive.leases AS lease USING {batch:Parked} WHERE {_fence}
    RETURNING {columns:WorkRow lease except attempt, holds, isolation, started_at}, lease.attempt - 1 AS attempt,
        batch.holds, CASE WHEN lease.isolation > 0 THEN 1 ELSE 0 END AS isolation,
        CASE WHEN lease.cancel_requested_at IS NULL THEN 'held' ELSE 'ready' END AS place,
        CASE WHEN {_not_started} = 1 THEN 'PENDING' ELSE 'RUNNING' END AS state,
        CASE WHEN {_not_started} = 1 THEN NULL ELSE lease.started_at END AS started_at,
        batch.step_state, CAST(NULL AS double precision) AS due_at,
        CASE WHEN lease.cancel_requested_at IS NULL THEN batch.held_by END AS held_by
), {_queued}
SELECT id, place FROM moved

-- name: stop
-- The work moves from leases into ended.
WITH gone AS (
    DELETE FROM redrive.leases AS lease USING {batch:Stopped} WHERE {_fence}
    RETURNING {columns:WorkRow lease except failures, error_class, first_failed_at, last_failed_at}, batch.state,
        batch.step_state, batch.failures, batch.error_class, {_failure_times}
)
INSERT INTO redrive.ended ({_kept_at_the_end}, {_kept_of_failures}, {_replayed}, state, step_state, ended_at)
SELECT {_kept_at_the_end}, {_kept_of_failures}, {_replayed_or_null}, state, step_state, :now FROM gone
RETURNING id, 'ended'

-- name: occupied
-- Lock the lease: it must not be taken over before its slots are noted.
SELECT lease.id, lease.slots FROM redrive.leases AS lease
JOIN {batch:Occupied only id, token, epoch} ON {_fence}
FOR UPDATE OF lease

-- name: occupy
-- A lease is a separate row.
UPDATE redrive.leases AS lease SET slots = batch.slots
FROM {batch:Occupied}
WHERE {_fence}
RETURNING lease.id

-- name: progress
-- A lease is a separate row.
UPDATE redrive.leases AS lease SET progress = batch.progress
FROM {batch:Progress}
WHERE {_fence}
