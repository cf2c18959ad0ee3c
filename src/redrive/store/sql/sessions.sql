-- name: insert
INSERT INTO redrive.sessions (hash, id, user_id, org, kind, created_at, seen_at, expires_at)
VALUES (:hash, :id, :user_id, :org, :kind, :now, :now, :now + :lifetime)
RETURNING {columns:SessionLine}

-- name: known
SELECT {columns:SessionLine held}, held.user_id, account.name,
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
RETURNING {columns:EndedSession}

-- name: end_one
DELETE FROM redrive.sessions WHERE user_id = :user_id AND id = :id
RETURNING id

-- name: end_others
DELETE FROM redrive.sessions WHERE user_id = :user_id AND id <> :id
RETURNING id

-- name: of_user
SELECT {columns:SessionLine} FROM redrive.sessions
WHERE user_id = :user_id AND expires_at > :now AND seen_at > :now - :idle
ORDER BY id DESC LIMIT :most

-- name: remove_expired
DELETE FROM redrive.sessions WHERE hash IN (
    SELECT hash FROM redrive.sessions WHERE expires_at <= :now ORDER BY expires_at LIMIT :most
    FOR UPDATE SKIP LOCKED
)
RETURNING id
