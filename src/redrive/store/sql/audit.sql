-- name: ensure_head
INSERT INTO redrive.audit_heads (org, sequence, hash)
SELECT batch.org,
    COALESCE((SELECT max(entry.sequence) FROM redrive.audit AS entry WHERE entry.org = batch.org), 0),
    COALESCE((SELECT entry.hash FROM redrive.audit AS entry WHERE entry.org = batch.org
        ORDER BY entry.sequence DESC LIMIT 1), '')
FROM {batch:OrgKey}
WHERE true
ORDER BY 1
ON CONFLICT (org) DO NOTHING
RETURNING org

-- name: lock_head
-- In order of orgs: all transactions lock heads in this order.
SELECT head.org, head.sequence, head.hash, :now FROM redrive.audit_heads AS head
JOIN {batch:OrgKey} ON head.org = batch.org
ORDER BY head.org
FOR UPDATE OF head

-- name: save_head
UPDATE redrive.audit_heads AS head SET sequence = batch.sequence, hash = batch.hash
FROM {batch:Entry only org, sequence, hash}
WHERE head.org = batch.org

-- name: insert_entry
INSERT INTO redrive.audit ({columns:Entry})
SELECT {columns:Entry batch}
FROM {batch:Entry}

-- name: end
SELECT COALESCE((SELECT sequence FROM redrive.audit_heads WHERE org = :org), 0),
    COALESCE((SELECT hash FROM redrive.audit_heads WHERE org = :org), ''),
    COALESCE((SELECT max(sequence) FROM redrive.audit WHERE org = :org), 0)

-- name: following
SELECT {columns:Entry} FROM redrive.audit
WHERE org = :org AND sequence > :after AND sequence <= :last
ORDER BY sequence LIMIT :size

-- name: after
SELECT {columns:AuditMark} FROM redrive.audit
WHERE org = :org AND sequence > :after
ORDER BY sequence LIMIT :most

-- name: _wanted
org = :org AND sequence < :before
    AND sequence >= CASE WHEN CAST(:since AS double precision) IS NULL THEN 0 ELSE COALESCE((
        SELECT min(sequence) FROM (
            SELECT sequence FROM redrive.audit WHERE org = :org AND at >= :since ORDER BY at, sequence LIMIT :look
        ) AS first
    ), :before) END
    AND sequence <= CASE WHEN CAST(:until AS double precision) IS NULL THEN :before ELSE COALESCE((
        SELECT max(sequence) FROM (
            SELECT sequence FROM redrive.audit WHERE org = :org AND at < :until
            ORDER BY at DESC, sequence DESC LIMIT :look
        ) AS last
    ), 0) END
    AND (CAST(:action AS text) IS NULL OR action = :action)
    AND (CAST(:actor AS text) IS NULL OR actor = :actor)
    AND (CAST(:since AS double precision) IS NULL OR at >= :since)
    AND (CAST(:until AS double precision) IS NULL OR at < :until)

-- name: page
SELECT {columns:Entry} FROM redrive.audit
WHERE {_wanted}
ORDER BY sequence DESC LIMIT :size

-- name: page_about
SELECT {columns:Entry} FROM redrive.audit
WHERE {_wanted} AND subject = :subject
ORDER BY sequence DESC LIMIT :size

-- name: page_of_action
SELECT {columns:Entry} FROM redrive.audit
WHERE {_wanted} AND action = :action AND action <> 'dead_letter.moved'
ORDER BY sequence DESC LIMIT :size

-- name: page_by_actor
SELECT {columns:Entry} FROM redrive.audit
WHERE {_wanted} AND actor = :actor AND actor <> 'redrive'
ORDER BY sequence DESC LIMIT :size

-- name: batches_about
SELECT {columns:Entry} FROM redrive.audit
WHERE org = :org AND sequence IN (
    SELECT sequence FROM (
        SELECT sequence, subjects FROM redrive.audit
        WHERE org = :org AND at >= :since ORDER BY at, sequence LIMIT :look
    ) AS first WHERE subjects <> replace(subjects, :quoted, '')
    UNION SELECT sequence FROM (
        SELECT sequence, subjects FROM redrive.audit
        WHERE org = :org AND at >= :since ORDER BY at DESC, sequence DESC LIMIT :look
    ) AS newest WHERE subjects <> replace(subjects, :quoted, '')
)
ORDER BY sequence DESC LIMIT :size
