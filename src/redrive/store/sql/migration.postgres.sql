-- name: ledger
-- PostgreSQL lists its tables elsewhere, and has schemas.
SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = :schema AND tablename = 'migrations'
