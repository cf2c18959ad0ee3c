-- name: records
-- One round trip for the whole batch.
{_record} FROM unnest(CAST(:fingerprint AS text[])) AS failure (fingerprint)
