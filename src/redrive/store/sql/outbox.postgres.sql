-- name: take
-- A subquery that locks rows may run again, and take more than the limit.
WITH picked AS MATERIALIZED (
    SELECT topic, org, key FROM redrive.outbox
    WHERE topic = :topic AND org = :org AND available_at <= :clock
    ORDER BY available_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.outbox AS entry SET token = :token, available_at = :clock + :lease_seconds
FROM picked WHERE entry.topic = picked.topic AND entry.org = picked.org AND entry.key = picked.key
RETURNING {columns:OutboxEntry entry}

-- name: remove
-- One execution removes the whole batch.
DELETE FROM redrive.outbox AS entry USING {batch:Delivered}
WHERE entry.topic = batch.topic AND entry.org = batch.org AND entry.key = batch.key
    AND entry.version = batch.version AND entry.token = batch.token
