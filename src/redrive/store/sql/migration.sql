-- name: ledger
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations' AND :schema IS NOT NULL

-- name: applied
SELECT version FROM redrive.migrations ORDER BY version
