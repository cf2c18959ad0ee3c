-- name: lock
-- SQLite locks the whole file, PostgreSQL the row.
SELECT {_columns} FROM redrive.users WHERE id = :id FOR UPDATE
