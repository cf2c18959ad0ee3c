-- name: lock
-- SQLite locks the whole file, PostgreSQL the row.
SELECT {_columns} FROM redrive.organizations WHERE name = :name FOR UPDATE
