-- name: claim
-- Rows are picked under SKIP LOCKED, so that workers do not wait for one another; plain IN could take too many.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'ready' AND queue = :queue
        AND (CAST(:workflows AS text) IS NULL OR workflow IN {items:workflows})
        AND (CAST(:without AS text) IS NULL OR workflow NOT IN {items:without})
        AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = :queue AND paused_at IS NOT NULL)
    ORDER BY priority DESC, submitted_at, id
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET {_lease} FROM picked WHERE id = picked_id
RETURNING {columns:Claim}

-- name: claim_alone
-- SKIP LOCKED, as in claim.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'alone' AND queue = :queue
        AND (CAST(:workflows AS text) IS NULL OR workflow IN {items:workflows})
        AND (CAST(:without AS text) IS NULL OR workflow NOT IN {items:without})
        AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = :queue AND paused_at IS NOT NULL)
    ORDER BY submitted_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET {_lease} FROM picked WHERE id = picked_id
RETURNING {columns:Claim}

-- name: reclaim
-- SKIP LOCKED, as in claim; the lock makes PostgreSQL check state and expiry again on the newest version of the row.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'leased' AND lease_expires_at < :now
    ORDER BY lease_expires_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET token = :token, lease_expires_at = :now + :ttl FROM picked WHERE id = picked_id
RETURNING {columns:Claim}

-- name: renew
-- SKIP LOCKED, since what is being recorded in this moment needs no renewal.
WITH picked AS MATERIALIZED (
    SELECT run.id AS picked_id, batch.ttl AS picked_ttl FROM redrive.runs AS run
    JOIN {batch:Renewal} ON run.id = batch.id AND run.token = batch.token
    WHERE run.place || '' = 'leased'
    FOR UPDATE OF run SKIP LOCKED
)
UPDATE redrive.runs SET lease_expires_at = :now + picked_ttl FROM picked WHERE id = picked_id
RETURNING id, token

-- name: promote
-- SKIP LOCKED, as in claim.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'waiting' AND due_at <= :now
    ORDER BY due_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET place = CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END, due_at = NULL
FROM picked WHERE id = picked_id
RETURNING queue
