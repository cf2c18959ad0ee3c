-- name: release
-- SKIP LOCKED, so that workers do not wait for one another.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'held' AND held_by = :held_by
    ORDER BY priority DESC, submitted_at, id
    LIMIT :most OFFSET :skip
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET place = CASE WHEN alone = 1 THEN 'alone' ELSE 'ready' END, held_by = NULL
FROM picked WHERE id = picked_id
RETURNING id, step_index, queue

-- name: lock_limit
-- SQLite locks the whole file, PostgreSQL the row.
SELECT name, maximum, in_use FROM redrive.limits WHERE name = :name FOR UPDATE

-- name: lock_breaker
-- SQLite locks the whole file, PostgreSQL the row.
SELECT name, body, closed_at, released, updated_at, :now FROM redrive.breakers WHERE name = :name FOR UPDATE
