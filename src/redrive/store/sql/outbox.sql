-- name: put
INSERT INTO redrive.outbox (topic, org, key, version, reference, available_at, created_at)
SELECT batch.topic, batch.org, batch.key, batch.version, batch.reference, :now, :now
FROM {batch:NewOutboxEntry}
WHERE true
ON CONFLICT (topic, org, key) DO UPDATE
SET version = excluded.version, reference = excluded.reference, token = NULL, available_at = excluded.available_at
WHERE outbox.version < excluded.version

-- name: take
UPDATE redrive.outbox SET token = :token, available_at = :clock + :lease_seconds
WHERE (topic, org, key) IN (
    SELECT topic, org, key FROM redrive.outbox
    WHERE topic = :topic AND org = :org AND available_at <= :clock
    ORDER BY available_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
RETURNING {columns:OutboxEntry}

-- name: remove
DELETE FROM redrive.outbox
WHERE topic = :topic AND org = :org AND key = :key AND version = :version AND token = :token

-- name: count
SELECT count(*) FROM redrive.outbox WHERE topic = :topic AND org = :org
