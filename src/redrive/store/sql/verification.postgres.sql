-- name: known
-- One round trip for the whole batch.
SELECT id FROM redrive.runs WHERE id IN (SELECT unnest(CAST(:id AS text[])))
