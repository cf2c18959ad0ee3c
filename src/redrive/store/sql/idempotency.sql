-- name: _this
org = :org AND domain = :domain AND user_id = :user_id AND key = :key

-- name: _held
status = 'processing' AND lease_expires_at > :clock

-- name: acquire
INSERT INTO redrive.idempotency_keys (org, domain, user_id, key, status, request_hash, token, lease_expires_at,
    expires_at, created_at, updated_at)
VALUES (:org, :domain, :user_id, :key, 'processing', :request_hash, :token, :now + :lease_seconds, :now + :ttl,
    :now, :now)
ON CONFLICT (org, domain, user_id, key) DO UPDATE
SET status = 'processing', request_hash = excluded.request_hash, response = NULL, error = NULL,
    token = excluded.token, lease_expires_at = excluded.lease_expires_at, expires_at = excluded.expires_at,
    created_at = excluded.created_at, updated_at = excluded.updated_at
WHERE idempotency_keys.status = 'processing' AND idempotency_keys.request_hash = excluded.request_hash
        AND (idempotency_keys.token = excluded.token OR idempotency_keys.lease_expires_at <= :clock)
    OR idempotency_keys.expires_at <= :clock
        AND NOT (idempotency_keys.status = 'processing' AND idempotency_keys.lease_expires_at > :clock)
RETURNING token

-- name: find
SELECT status, request_hash, response, error, :clock - updated_at, lease_expires_at - :clock, expires_at - :clock
FROM redrive.idempotency_keys
WHERE {_this}

-- name: renew_if_held
UPDATE redrive.idempotency_keys SET lease_expires_at = :clock + :lease_seconds
WHERE {_this} AND token = :token AND status = 'processing'
RETURNING token

-- name: complete_if_held
UPDATE redrive.idempotency_keys
SET status = 'completed', response = :response, expires_at = :clock + :ttl, updated_at = :clock
WHERE {_this} AND token = :token
RETURNING token

-- name: fail_if_held
UPDATE redrive.idempotency_keys
SET status = 'failed', error = :error, expires_at = :clock + :ttl, updated_at = :clock
WHERE {_this} AND token = :token
RETURNING token

-- name: release_if_held
DELETE FROM redrive.idempotency_keys
WHERE {_this} AND token = :token AND status = 'processing'
RETURNING token

-- name: remove_expired
DELETE FROM redrive.idempotency_keys
WHERE (org, domain, user_id, key) IN (
    SELECT org, domain, user_id, key FROM redrive.idempotency_keys
    WHERE expires_at <= :clock AND NOT ({_held})
    ORDER BY expires_at
    LIMIT :most
)
RETURNING token

-- name: stale
SELECT {columns:KeyPayloads} FROM redrive.idempotency_keys
WHERE (org, domain, user_id, key) > (:org, :domain, :user_id, :key)
    AND (substr(response, 1, :length) <> :current OR substr(error, 1, :length) <> :current)
ORDER BY org, domain, user_id, key
LIMIT :size

-- name: rewrite
UPDATE redrive.idempotency_keys SET response = :response, error = :error
WHERE {_this} AND token = :token AND status <> 'processing'
