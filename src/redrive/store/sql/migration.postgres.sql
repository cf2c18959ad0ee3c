-- name: ledger
-- PostgreSQL has another catalog, and schemas.
SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = :schema AND tablename = 'migrations'
