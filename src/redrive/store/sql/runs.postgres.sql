-- name: enqueue_new
-- As enqueue, for runs without idempotency keys. It does not check for conflicts and returns nothing, which takes a
-- quarter of the time.
WITH given AS (
    INSERT INTO redrive.run_inputs (id, org, definition, input, correlation_id, tags, metadata, owner)
    SELECT batch.id, CAST(:org AS text), CAST(:definition AS text), batch.input, batch.given_correlation_id,
        CAST(:tags AS text), CAST(:metadata AS text), CAST(:owner AS text)
    FROM {batch:NewRun only id, input, given_correlation_id}
)
INSERT INTO redrive.ready ({_new_work}, place)
SELECT batch.id, {_new_and_ready}
FROM {batch:NewRun only id}

-- name: enqueue
-- Values that all runs of the batch share are sent once instead of once per run. All runs are ready immediately.
WITH given AS (
    INSERT INTO redrive.run_inputs (id, org, definition, input, idempotency_key, request_hash, correlation_id, tags,
        metadata, owner)
    SELECT batch.id, CAST(:org AS text), CAST(:definition AS text), batch.input, batch.idempotency_key, batch.request_hash,
        batch.given_correlation_id, CAST(:tags AS text), CAST(:metadata AS text), CAST(:owner AS text)
    FROM {batch:NewRun only id, input, idempotency_key, request_hash, given_correlation_id}
    WHERE true
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO redrive.ready ({_new_work}, place)
SELECT given.id, {_new_and_ready}
FROM given
RETURNING id

-- name: enqueue_mixed
-- Some runs are ready immediately, others wait.
WITH given AS (
    INSERT INTO redrive.run_inputs (id, org, definition, input, idempotency_key, request_hash, correlation_id, tags,
        metadata, owner)
    SELECT batch.id, batch.org, batch.definition, batch.input, batch.idempotency_key, batch.request_hash,
        batch.given_correlation_id, batch.tags, batch.metadata, batch.owner
    FROM {batch:NewRun only id, org, definition, input, idempotency_key, request_hash, given_correlation_id, tags, metadata, owner}
    WHERE true
    ON CONFLICT DO NOTHING
    RETURNING id
), {_by_due_time}
SELECT id FROM given

-- name: _by_due_time
due AS (
    SELECT batch.id, batch.org, batch.workflow, batch.queue, batch.priority,
        COALESCE(batch.at, :now + batch.delay) AS due_at
    FROM {batch:NewRun only id, org, workflow, queue, priority, delay, at} JOIN given ON given.id = batch.id
), into_ready AS (
    INSERT INTO redrive.ready ({_new_work}, place)
    SELECT id, org, workflow, queue, priority, :now, :now - {_hour} * priority, {_untouched}, 'ready'
    FROM due WHERE due_at <= :now
), into_idle AS (
    INSERT INTO redrive.idle ({_new_work}, place, due_at)
    SELECT id, org, workflow, queue, priority, :now, :now - {_hour} * priority, {_untouched}, 'waiting', due_at
    FROM due WHERE due_at > :now
)

-- name: enqueue_in_order
-- As enqueue_mixed. When the transaction commits, a trigger parks the runs that have a predecessor. The inputs are sorted,
-- so that concurrent batches cannot deadlock.
WITH given AS (
    INSERT INTO redrive.run_inputs (id, org, definition, input, idempotency_key, request_hash, correlation_id, tags,
        metadata, owner, order_key)
    SELECT batch.id, batch.org, batch.definition, batch.input, batch.idempotency_key, batch.request_hash,
        batch.given_correlation_id, batch.tags, batch.metadata, batch.owner, batch.order_key
    FROM {batch:NewRun only id, org, definition, input, idempotency_key, request_hash, given_correlation_id, tags, metadata, owner, order_key}
    WHERE true
    ORDER BY batch.org, batch.idempotency_key
    ON CONFLICT DO NOTHING
    RETURNING id
), {_by_due_time}, in_order AS (
    INSERT INTO redrive.run_order (run_id, org, order_key, after_failure, due_at, pending)
    SELECT batch.id, batch.org, batch.order_key, batch.after_failure, CASE WHEN due.due_at > :now THEN due.due_at END,
        CASE WHEN row_number() OVER () = 1 THEN 2 ELSE 1 END
    FROM {batch:NewRun only id, org, order_key, after_failure} JOIN due ON due.id = batch.id
)
SELECT id FROM given

-- name: _new_and_ready
CAST(:org AS text), CAST(:workflow AS text), CAST(:queue AS text), CAST(:priority AS integer), :now,
    :now - {_hour} * CAST(:priority AS integer), {_untouched}, 'ready'

-- name: _new_work
id, org, workflow, queue, priority, submitted_at, sort_key, epoch, attempt, step_index, failures, rate_limit_waits, holds,
    losses, isolated_crashes, isolation, replays, redrives, step_only, has_letter, state, step_state

-- name: _untouched
0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'PENDING', 'PENDING'

-- name: _idle_again
{_kept_at_the_end}, {_kept_of_failures}, {_replayed}

-- name: cancel_idle
-- The work moves out of ready or idle into ended.
WITH from_ready AS (
    DELETE FROM redrive.ready WHERE id = :id AND org = :org RETURNING *
), from_idle AS (
    DELETE FROM redrive.idle WHERE id = :id AND org = :org RETURNING *
)
INSERT INTO redrive.ended ({_kept_at_the_end}, {_kept_of_failures}, {_replayed}, state, step_state, ended_at)
SELECT {_kept_at_the_end_now}, {_kept_of_failures}, {_replayed_or_null}, 'CANCELLED', 'CANCELLED', :now
FROM (SELECT {_idle_again} FROM from_ready UNION ALL SELECT {_idle_again} FROM from_idle) AS gone
RETURNING id, step_index

-- name: _kept_at_the_end_now
submitted_at, attempt_started_at, started_at, :now, token, epoch, attempt, step_index, priority, id, org, workflow, queue,
    step_input, worker, code_version, policy_override

-- name: cancel_leased
-- A lease is a separate row.
UPDATE redrive.leases SET cancel_requested_at = COALESCE(cancel_requested_at, :now)
WHERE id = :id AND org = :org
RETURNING id, step_index

-- name: settle_order
-- A transaction settles the orders of pending runs when it commits.
UPDATE redrive.run_order SET pending = 3 WHERE run_id = :id
RETURNING run_id

-- name: delete_run
-- A run is two rows: its input and its work.
WITH work AS (DELETE FROM redrive.ended WHERE id = :id)
DELETE FROM redrive.run_inputs WHERE id = :id
