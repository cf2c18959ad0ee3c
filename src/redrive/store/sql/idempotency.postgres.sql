-- name: remove_expired
-- Lock the rows: a caller that takes the same key concurrently waits, or has locked it first.
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
