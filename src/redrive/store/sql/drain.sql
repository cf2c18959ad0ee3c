-- name: live
-- A process is not alive if it has reported its end or missed its heartbeats.
SELECT 'worker' AS kind, id, host, process FROM redrive.workers
WHERE state <> 'stopped' AND seen_at >= :clock - :silent
UNION ALL
SELECT 'processor', id, '', 0 FROM redrive.processors
WHERE state = 'running' AND seen_at >= :clock - :intervals * interval_seconds
ORDER BY 1 DESC, 2
