-- name: freeze_ids
-- json_each is another function here.
{_freeze} (
    {_member} WHERE org = :org AND id IN (SELECT json_array_elements_text(CAST(:ids AS json)))
) AS member
WHERE position <= :most

-- name: unknown_ids
-- json_each is another function here.
SELECT value FROM json_array_elements_text(CAST(:ids AS json)) AS wanted (value)
WHERE NOT EXISTS (SELECT 1 FROM redrive.dead_letters AS letter WHERE letter.id = value AND letter.org = :org)
LIMIT :most

-- name: refuse
-- One round trip for the whole batch.
UPDATE redrive.replays AS item SET state = 'REFUSED', ended_at = :now, note = batch.note
FROM unnest(CAST(:id AS text[]), CAST(:note AS text[])) AS batch (id, note)
WHERE item.id = batch.id AND item.state = 'PLANNED'

-- name: lock
-- SQLite locks the whole file, PostgreSQL the row.
SELECT {_operation}, :now FROM redrive.replay_operations WHERE id = :id AND org = :org FOR UPDATE

-- name: lock_running
-- SKIP LOCKED: one driver at a time is enough, the others look after something else.
SELECT {_operation}, :now FROM redrive.replay_operations WHERE id = :id AND state = 'RUNNING' FOR UPDATE SKIP LOCKED

-- name: progress
-- json_each is another function here.
SELECT operation_id, state, count(*) FROM redrive.replays
WHERE org = :org AND operation_id IN (SELECT json_array_elements_text(CAST(:ids AS json)))
GROUP BY operation_id, state
