-- name: enqueue_mixed
-- One round trip for the whole batch.
INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place, submitted_at, due_at, step_index,
    step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses, lonely_losses, alone, idempotency_key,
    request_hash, correlation_id, tags, metadata)
SELECT id, org, workflow, definition, queue, priority, 'PENDING',
    CASE WHEN COALESCE(at, :now + delay) <= :now THEN 'ready' ELSE 'waiting' END, :now,
    CASE WHEN COALESCE(at, :now + delay) <= :now THEN NULL ELSE COALESCE(at, :now + delay) END, 0,
    'PENDING', input, 0, 0, 0, 0, 0, 0, 0, 0, idempotency_key,
    request_hash, correlation_id, tags, metadata
FROM unnest(CAST(:id AS text[]), CAST(:org AS text[]), CAST(:workflow AS text[]), CAST(:definition AS text[]),
    CAST(:queue AS text[]), CAST(:priority AS integer[]), CAST(:delay AS double precision[]),
    CAST(:at AS double precision[]), CAST(:input AS text[]), CAST(:idempotency_key AS text[]),
    CAST(:request_hash AS text[]), CAST(:correlation_id AS text[]), CAST(:tags AS text[]), CAST(:metadata AS text[]))
    AS batch (id, org, workflow, definition, queue, priority, delay, at, input, idempotency_key, request_hash,
        correlation_id, tags, metadata)
ON CONFLICT DO NOTHING
RETURNING id

-- name: enqueue
-- One round trip for the whole batch; what its runs share is not repeated.
INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place, submitted_at, due_at, step_index,
    step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses, lonely_losses, alone, idempotency_key,
    request_hash, correlation_id, tags, metadata)
SELECT id, CAST(:org AS text), CAST(:workflow AS text), CAST(:definition AS text), CAST(:queue AS text),
    CAST(:priority AS integer), 'PENDING', CASE WHEN due_at <= :now THEN 'ready' ELSE 'waiting' END, :now,
    CASE WHEN due_at <= :now THEN NULL ELSE due_at END, 0,
    'PENDING', input, 0, 0, 0, 0, 0, 0, 0, 0, idempotency_key,
    request_hash, correlation_id, CAST(:tags AS text), CAST(:metadata AS text)
FROM unnest(CAST(:id AS text[]), CAST(:input AS text[]), CAST(:idempotency_key AS text[]),
        CAST(:request_hash AS text[]), CAST(:correlation_id AS text[]))
        AS batch (id, input, idempotency_key, request_hash, correlation_id),
    (SELECT COALESCE(CAST(:at AS double precision), :now + CAST(:delay AS double precision)) AS due_at) AS shared
ON CONFLICT DO NOTHING
RETURNING id

-- name: expired
-- The rows are locked: whoever replays a run in this moment waits, or was first.
SELECT id FROM redrive.runs
WHERE place = 'ended' AND state IN ('SUCCESS', 'CANCELLED') AND ended_at < :now - :age
ORDER BY ended_at
LIMIT :most
FOR UPDATE SKIP LOCKED

-- name: expired_failures
-- As expired.
{_expired_failures}
FOR UPDATE SKIP LOCKED

-- name: delete_items
-- The operation is locked: whoever starts it in this moment waits, or was first.
WITH old AS MATERIALIZED (
    SELECT operation.id FROM redrive.replay_operations AS operation
    WHERE operation.state IN ('DONE', 'CANCELLED', 'PLANNED') AND operation.updated_at < :now - :age
    ORDER BY operation.updated_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
DELETE FROM redrive.replays WHERE operation_id IN (SELECT id FROM old)
