-- name: pick
-- SKIP LOCKED, so that two drivers of one operation do not wait for one another; plain IN could take too many.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.replays AS item
    WHERE operation_id = :operation_id AND state = 'PLANNED' AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = item.letter_id AND other.state <> 'RESOLVED')
    ORDER BY position
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.replays
SET state = 'RUNNING', started_at = :now,
    number = (SELECT run.replays + 1 FROM redrive.runs AS run WHERE run.id = redrive.replays.run_id),
    requested_by = COALESCE((SELECT started_by FROM redrive.replay_operations WHERE id = :operation_id), requested_by)
FROM picked WHERE id = picked_id
RETURNING {columns:NewReplay except step_input, queue}
