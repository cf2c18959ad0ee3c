-- name: insert
INSERT INTO redrive.users (id, name, org, created_at, created_by) VALUES (:id, :name, :org, :now, :by)
ON CONFLICT (name) DO NOTHING
RETURNING {columns:User}

-- name: get
SELECT {columns:User} FROM redrive.users WHERE id = :id

-- name: named
SELECT {columns:User} FROM redrive.users WHERE name = :name

-- name: lock
SELECT {columns:User} FROM redrive.users WHERE id = :id FOR UPDATE

-- name: identified
SELECT {columns:User} FROM redrive.users WHERE issuer = :issuer AND subject = :subject

-- name: identify
UPDATE redrive.users SET issuer = :issuer, subject = :subject
WHERE id = :id AND issuer IS NULL
    AND NOT EXISTS (SELECT 1 FROM redrive.users AS other WHERE other.issuer = :issuer AND other.subject = :subject)
RETURNING {columns:User}

-- name: set_password
UPDATE redrive.users SET password = :password, password_number = password_number + 1 WHERE id = :id

-- name: renew_password_if_same
UPDATE redrive.users SET password = :password WHERE id = :id AND password = :before

-- name: disable
UPDATE redrive.users SET disabled_at = :now WHERE id = :id AND disabled_at IS NULL
RETURNING id

-- name: enable
UPDATE redrive.users SET disabled_at = NULL WHERE id = :id AND disabled_at IS NOT NULL
RETURNING id

-- name: adopt
UPDATE redrive.users SET org = :org, password = NULL, password_number = password_number + 1 WHERE id = :id
