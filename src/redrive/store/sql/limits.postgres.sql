-- name: release
-- SKIP LOCKED, so that workers do not wait for one another.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'held' AND held_by = :held_by
    ORDER BY priority DESC, submitted_at, id
    LIMIT :most OFFSET :skip
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET place = CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END, held_by = NULL
FROM picked WHERE id = picked_id
RETURNING id, step_index, queue

-- name: forget_limits
-- SKIP LOCKED: whoever locks several of them at once must not be waited for, or a deadlock were possible.
DELETE FROM redrive.limits WHERE name IN (
    SELECT name FROM redrive.limits AS known
    WHERE in_use = 0
        AND NOT EXISTS (SELECT 1 FROM redrive.runs WHERE place = 'held' AND held_by = 'limit:' || known.name)
    FOR UPDATE SKIP LOCKED
)
