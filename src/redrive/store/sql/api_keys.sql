-- name: insert
INSERT INTO redrive.api_keys (id, org, name, role, scopes, hash, created_at, created_by, expires_at)
VALUES (:id, :org, :name, :role, :scopes, :hash, :now, :by, :now + CAST(:lifetime AS double precision))
ON CONFLICT (org, name) WHERE revoked_at IS NULL DO NOTHING
RETURNING {columns:ApiKey}

-- name: known
SELECT {columns:ApiKey}, hash, previous_hash, :now FROM redrive.api_keys WHERE id = :id

-- name: find
SELECT {columns:ApiKey} FROM redrive.api_keys
WHERE org = :org AND (id = :which OR (name = :which AND revoked_at IS NULL))

-- name: lock
SELECT {columns:ApiKey}, :now FROM redrive.api_keys
WHERE org = :org AND (id = :which OR (name = :which AND revoked_at IS NULL))
FOR UPDATE

-- name: newest
SELECT {columns:ApiKey} FROM redrive.api_keys WHERE org = :org ORDER BY id DESC LIMIT :size

-- name: older
SELECT {columns:ApiKey} FROM redrive.api_keys WHERE org = :org AND id < :before ORDER BY id DESC LIMIT :size

-- name: touch
UPDATE redrive.api_keys SET last_used_at = :now
WHERE id = :id AND (last_used_at IS NULL OR last_used_at <= :now - :pause)

-- name: rotate
UPDATE redrive.api_keys SET previous_hash = hash, previous_expires_at = :now + :grace, hash = :hash, rotated_at = :now,
    expires_at = CASE WHEN CAST(:lifetime AS double precision) IS NULL THEN expires_at ELSE :now + :lifetime END
WHERE org = :org AND id = :id AND revoked_at IS NULL
RETURNING {columns:ApiKey}

-- name: revoke
UPDATE redrive.api_keys SET revoked_at = :now, revoked_by = :by, previous_hash = NULL, previous_expires_at = NULL
WHERE org = :org AND id = :id AND revoked_at IS NULL
RETURNING {columns:ApiKey}

-- name: any_credential
SELECT 1 FROM redrive.users WHERE disabled_at IS NULL AND (password IS NOT NULL OR issuer IS NOT NULL)
UNION ALL SELECT 1 FROM redrive.api_keys
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
LIMIT 1
