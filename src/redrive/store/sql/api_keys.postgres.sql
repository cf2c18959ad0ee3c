-- name: lock
-- SQLite locks the whole file, PostgreSQL the row.
SELECT {_shown}, :now FROM redrive.api_keys
WHERE org = :org AND (id = :which OR (name = :which AND revoked_at IS NULL))
FOR UPDATE
