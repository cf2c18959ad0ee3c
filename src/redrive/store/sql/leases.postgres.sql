-- name: claim
-- Rows are picked under SKIP LOCKED, so that workers do not wait for one another; plain IN could take too many.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'ready' AND queue = :queue
        AND (CAST(:workflows AS json) IS NULL
            OR workflow IN (SELECT json_array_elements_text(CAST(:workflows AS json))))
        AND (CAST(:without AS json) IS NULL
            OR workflow NOT IN (SELECT json_array_elements_text(CAST(:without AS json))))
        AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = :queue AND paused_at IS NOT NULL)
    ORDER BY priority DESC, submitted_at, id
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET {_lease} FROM picked WHERE id = picked_id
RETURNING {_claim}

-- name: claim_alone
-- SKIP LOCKED, as in claim.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'alone' AND queue = :queue
        AND (CAST(:workflows AS json) IS NULL
            OR workflow IN (SELECT json_array_elements_text(CAST(:workflows AS json))))
        AND (CAST(:without AS json) IS NULL
            OR workflow NOT IN (SELECT json_array_elements_text(CAST(:without AS json))))
        AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = :queue AND paused_at IS NOT NULL)
    ORDER BY submitted_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET {_lease} FROM picked WHERE id = picked_id
RETURNING {_claim}

-- name: failed
-- SQLite locks the whole file, PostgreSQL the row.
SELECT {_claim} FROM redrive.runs
WHERE id = :id AND org = :org AND place = 'ended' AND state IN ('FAILED', 'DLQ_PENDING')
FOR UPDATE

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
RETURNING {_claim}

-- name: renew
-- One round trip for the whole batch; SKIP LOCKED, since what is being recorded in this moment needs no renewal.
WITH picked AS MATERIALIZED (
    SELECT run.id AS picked_id, batch.ttl AS picked_ttl FROM redrive.runs AS run
    JOIN unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:ttl AS double precision[]))
        AS batch (id, token, ttl) ON run.id = batch.id AND run.token = batch.token
    WHERE run.place || '' = 'leased'
    FOR UPDATE OF run SKIP LOCKED
)
UPDATE redrive.runs SET lease_expires_at = :now + picked_ttl FROM picked WHERE id = picked_id
RETURNING id, token

-- name: kept
-- One round trip for the whole batch; whoever has locked an expired lease may be reclaiming it.
SELECT run.id, run.token FROM redrive.runs AS run
JOIN unnest(CAST(:id AS text[]), CAST(:token AS bigint[])) AS batch (id, token)
    ON run.id = batch.id AND run.token = batch.token
WHERE run.place || '' = 'leased' AND run.lease_expires_at >= :now

-- name: ready_queues
-- json_each is another function here.
SELECT DISTINCT wanted.value FROM json_array_elements_text(CAST(:queues AS json)) AS wanted (value)
WHERE EXISTS (SELECT 1 FROM redrive.runs WHERE place = 'ready' AND queue = wanted.value)
    AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = wanted.value AND paused_at IS NOT NULL)

-- name: lonely_queues
-- json_each is another function here.
SELECT DISTINCT wanted.value FROM json_array_elements_text(CAST(:queues AS json)) AS wanted (value)
WHERE EXISTS (
        SELECT 1 FROM redrive.runs
        WHERE place = 'alone' AND queue = wanted.value
            AND (CAST(:workflows AS json) IS NULL
                OR workflow IN (SELECT json_array_elements_text(CAST(:workflows AS json))))
    )
    AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = wanted.value AND paused_at IS NOT NULL)

-- name: promote
-- SKIP LOCKED, as in claim.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'waiting' AND due_at <= :now
    ORDER BY due_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET place = CASE WHEN alone > 0 THEN 'alone' ELSE 'ready' END, due_at = NULL
FROM picked WHERE id = picked_id
RETURNING queue
