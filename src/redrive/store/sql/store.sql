-- name: write
UPDATE redrive.migrations SET applied_at = applied_at WHERE version = 1
