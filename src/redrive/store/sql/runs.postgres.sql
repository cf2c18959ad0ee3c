-- name: enqueue
-- What all runs of the batch share is sent once instead of once per run.
{_insert_run}
SELECT batch.id, CAST(:org AS text), CAST(:workflow AS text), CAST(:definition AS text), CAST(:queue AS text),
    CAST(:priority AS integer), 'PENDING', CASE WHEN due_at <= :now THEN 'ready' ELSE 'waiting' END, :now,
    CASE WHEN due_at <= :now THEN NULL ELSE due_at END,
    0, 'PENDING', batch.input, 0, 0, 0, 0, 0, 0, 0, 0, batch.idempotency_key, batch.request_hash, batch.correlation_id,
    CAST(:tags AS text), CAST(:metadata AS text)
FROM {batch:NewRun only id, input, idempotency_key, request_hash, correlation_id},
    (SELECT COALESCE(CAST(:at AS double precision), :now + CAST(:delay AS double precision)) AS due_at) AS shared
WHERE true
ON CONFLICT DO NOTHING
RETURNING id
