-- The guard against workers of version 0.1 that were frozen during the conversion and come back. They name
-- `lease_expires_at` in every claim, renewal and record, and insert runs without a `sort_key` or into a table that is a view
-- now. None of these statements works any more, so they change nothing.
DELETE FROM redrive.migrations WHERE version < 16;
