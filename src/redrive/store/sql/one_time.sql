-- name: insert
INSERT INTO redrive.one_time_tokens (hash, kind, user_id, body, created_at, created_by, expires_at)
VALUES (:hash, :kind, :user_id, :body, :now, :by, :now + :seconds)
RETURNING expires_at

-- name: user_of
SELECT user_id FROM redrive.one_time_tokens WHERE hash = :hash AND kind = :kind

-- name: take
DELETE FROM redrive.one_time_tokens WHERE hash = :hash AND kind = :kind AND expires_at > :now
RETURNING {columns:UsedToken}

-- name: drop_of_user
DELETE FROM redrive.one_time_tokens WHERE user_id = :user_id

-- name: drop_made_by
DELETE FROM redrive.one_time_tokens WHERE created_by = :by

-- name: drop_made_by_key
DELETE FROM redrive.one_time_tokens
WHERE created_by = :by AND user_id IN (SELECT user_id FROM redrive.memberships WHERE org = :org)

-- name: remove_expired
DELETE FROM redrive.one_time_tokens WHERE hash IN (
    SELECT hash FROM redrive.one_time_tokens WHERE expires_at <= :now ORDER BY expires_at LIMIT :most
    FOR UPDATE SKIP LOCKED
)
RETURNING hash
