-- name: ensure_head
-- One round trip for the whole batch, in order of orgs.
INSERT INTO redrive.audit_heads (org, sequence, hash)
SELECT batch.org, COALESCE(last.sequence, 0), COALESCE(last.hash, '')
FROM unnest(CAST(:org AS text[])) AS batch (org)
LEFT JOIN LATERAL (
    SELECT sequence, hash FROM redrive.audit WHERE audit.org = batch.org ORDER BY sequence DESC LIMIT 1
) AS last ON true
ORDER BY batch.org
ON CONFLICT (org) DO NOTHING
RETURNING org

-- name: lock_head
-- SQLite locks the whole file, PostgreSQL the rows, in order of orgs.
SELECT org, sequence, hash, :now FROM redrive.audit_heads
WHERE org = ANY(CAST(:org AS text[]))
ORDER BY org
FOR UPDATE

-- name: save_head
-- One round trip for the whole batch.
UPDATE redrive.audit_heads AS head SET sequence = batch.sequence, hash = batch.hash
FROM unnest(CAST(:org AS text[]), CAST(:sequence AS bigint[]), CAST(:hash AS text[])) AS batch (org, sequence, hash)
WHERE head.org = batch.org

-- name: insert_entry
-- One round trip for the whole batch.
INSERT INTO redrive.audit (org, sequence, at, actor, action, subject, subjects, detail, hash)
SELECT org, sequence, at, actor, action, subject, subjects, detail, hash
FROM unnest(CAST(:org AS text[]), CAST(:sequence AS bigint[]), CAST(:at AS double precision[]),
    CAST(:actor AS text[]), CAST(:action AS text[]), CAST(:subject AS text[]), CAST(:subjects AS text[]),
    CAST(:detail AS text[]), CAST(:hash AS text[]))
    AS batch (org, sequence, at, actor, action, subject, subjects, detail, hash)
