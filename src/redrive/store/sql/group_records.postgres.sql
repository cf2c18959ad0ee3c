-- name: _left
-- PostgreSQL finds the index by itself; SQLite takes the one of all letters of a failure.
redrive.dead_letters AS letter

-- name: records
-- One round trip for the whole batch.
{_record} FROM unnest(CAST(:fingerprint AS text[])) AS failure (fingerprint)
