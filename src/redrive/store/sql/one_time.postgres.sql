-- name: remove_expired
-- SKIP LOCKED, so that workers do not wait for one another.
DELETE FROM redrive.one_time_tokens WHERE hash IN (
    SELECT hash FROM redrive.one_time_tokens WHERE expires_at <= :now ORDER BY expires_at LIMIT :most
    FOR UPDATE SKIP LOCKED
)
RETURNING hash
