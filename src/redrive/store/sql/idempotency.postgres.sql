-- name: remove_expired
-- The rows are locked: whoever takes a key up again in this moment waits, or was first.
WITH picked AS MATERIALIZED (
    SELECT org, domain, user_id, key FROM redrive.idempotency_keys
    WHERE expires_at <= :clock AND NOT ({_held})
    ORDER BY expires_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
DELETE FROM redrive.idempotency_keys
WHERE (org, domain, user_id, key) IN (SELECT org, domain, user_id, key FROM picked)
RETURNING token
