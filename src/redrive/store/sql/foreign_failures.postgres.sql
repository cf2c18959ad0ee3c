-- name: lock_known
-- SQLite locks the whole file, PostgreSQL the row.
SELECT id, place FROM redrive.runs WHERE org = :org AND idempotency_key = :key FOR UPDATE

-- name: lock_removable
-- The rows are locked: whoever replays one of them in this moment waits, or was first.
{_removable}
ORDER BY run.id
FOR UPDATE
