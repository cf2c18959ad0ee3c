-- name: settings
SELECT name, setting FROM pg_catalog.pg_settings
WHERE name IN ('synchronous_commit', 'fsync', 'full_page_writes', 'wal_level', 'archive_mode', 'autovacuum',
    'max_connections', 'superuser_reserved_connections', 'track_counts')

-- name: server
SELECT pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery(),
    pg_catalog.pg_database_size(pg_catalog.current_database()),
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname IS NOT NULL),
    (SELECT count(*) FROM pg_catalog.pg_stat_activity
        WHERE datname = pg_catalog.current_database() AND query = '<insufficient privilege>'),
    :clock

-- name: clock
SELECT :clock

-- name: transactions
SELECT pid, COALESCE(usename, ''), COALESCE(application_name, ''), COALESCE(state, ''),
    CAST(extract(epoch FROM clock_timestamp() - xact_start) AS double precision),
    backend_xmin IS NOT NULL OR backend_xid IS NOT NULL
FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
    AND backend_type = 'client backend'
    AND extract(epoch FROM clock_timestamp() - xact_start) > CAST(:seconds AS double precision)
ORDER BY xact_start LIMIT :most

-- name: leftovers
SELECT 'prepared transaction', gid, CAST(extract(epoch FROM clock_timestamp() - prepared) AS double precision)
FROM pg_catalog.pg_prepared_xacts
WHERE database = pg_catalog.current_database()
    AND extract(epoch FROM clock_timestamp() - prepared) > CAST(:seconds AS double precision)
UNION ALL
SELECT 'replication slot', CAST(slot_name AS text), NULL FROM pg_catalog.pg_replication_slots WHERE NOT active
LIMIT :most

-- name: tables
SELECT pg_catalog.quote_ident(known.schemaname) || '.' || pg_catalog.quote_ident(known.relname), known.n_live_tup,
    known.n_dead_tup, pg_catalog.pg_total_relation_size(known.relid),
    CAST(extract(epoch FROM clock_timestamp() - GREATEST(known.last_vacuum, known.last_autovacuum))
        AS double precision),
    COALESCE('autovacuum_enabled=false' = ANY (class.reloptions) OR 'autovacuum_enabled=off' = ANY (class.reloptions),
        false)
FROM pg_catalog.pg_stat_user_tables AS known
JOIN pg_catalog.pg_class AS class ON class.oid = known.relid
WHERE known.schemaname = :schema
ORDER BY known.n_dead_tup DESC
