-- name: insert
INSERT INTO redrive.sessions (hash, id, user_id, org, kind, created_at, seen_at, expires_at)
VALUES (:hash, :id, :user_id, :org, :kind, :now, :now, :now + :lifetime)
RETURNING created_at, expires_at

-- name: known
SELECT held.id, held.user_id, held.org, held.kind, held.created_at, held.seen_at, held.expires_at, account.name,
    (SELECT role FROM redrive.memberships WHERE user_id = held.user_id AND org = held.org AND active = 1),
    (SELECT role FROM redrive.memberships WHERE user_id = held.user_id AND org = :home AND active = 1),
    :now
FROM redrive.sessions AS held JOIN redrive.users AS account ON account.id = held.user_id
WHERE held.hash = :hash AND held.expires_at > :now AND held.seen_at > :now - :idle AND account.disabled_at IS NULL

-- name: touch
UPDATE redrive.sessions SET seen_at = :now WHERE hash = :hash AND seen_at <= :now - :pause

-- name: move
UPDATE redrive.sessions SET org = :org WHERE hash = :hash
RETURNING id

-- name: end
DELETE FROM redrive.sessions WHERE hash = :hash
RETURNING id, user_id, org

-- name: end_one
DELETE FROM redrive.sessions WHERE user_id = :user_id AND id = :id
RETURNING id

-- name: end_others
DELETE FROM redrive.sessions WHERE user_id = :user_id AND id <> :id
RETURNING id

-- name: of_user
SELECT id, org, kind, created_at, seen_at, expires_at FROM redrive.sessions
WHERE user_id = :user_id AND expires_at > :now AND seen_at > :now - :idle
ORDER BY id DESC LIMIT :most

-- name: remove_expired
DELETE FROM redrive.sessions WHERE hash IN (
    SELECT hash FROM redrive.sessions WHERE expires_at <= :now ORDER BY expires_at LIMIT :most
    FOR UPDATE SKIP LOCKED
)
RETURNING id
