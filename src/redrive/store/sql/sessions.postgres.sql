-- name: remove_expired
-- SKIP LOCKED, so that workers do not wait for one another.
DELETE FROM redrive.sessions WHERE hash IN (
    SELECT hash FROM redrive.sessions WHERE expires_at <= :now ORDER BY expires_at LIMIT :most
    FOR UPDATE SKIP LOCKED
)
RETURNING id
