-- name: _lease
place = 'leased', state = 'RUNNING', step_state = 'RUNNING', attempt = attempt + 1, epoch = epoch + 1,
    token = :token, worker = :worker, code_version = :code_version, leased_until = :now + :ttl,
    attempt_started_at = :clock, started_at = COALESCE(started_at, :clock), due_at = NULL, held_by = NULL

-- name: _may_claim
NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = :queue AND paused_at IS NOT NULL)

-- name: _picked
-- The next runs of each known workflow, from the index. Other workflows in the queue are not read.
SELECT id, sort_key FROM {items:workflows} AS known CROSS JOIN redrive.runs
WHERE {_may_claim} AND rowid IN (
    SELECT rowid FROM redrive.runs
    WHERE place = 'ready' AND queue = :queue AND workflow = known.value AND sort_key >= :floor
    ORDER BY sort_key, id
    LIMIT :most
)
ORDER BY sort_key, id
LIMIT :most

-- name: claim
UPDATE redrive.runs SET {_lease}
WHERE id IN (SELECT id FROM ({_picked}) AS picked)
RETURNING {columns:Claim}

-- name: claim_within
UPDATE redrive.runs SET {_lease}
WHERE id IN (
    SELECT id FROM (
        SELECT id, sum(size) OVER (ORDER BY sort_key, id) - size AS before FROM (
            SELECT run.id, run.sort_key, octet_length(input) + COALESCE(octet_length(step_input), 0) AS size
            FROM ({_picked}) AS picked CROSS JOIN redrive.runs AS run ON run.id = picked.id
        ) AS sized
    ) AS summed
    WHERE before < :bytes
)
RETURNING {columns:Claim}

-- name: claim_alone
UPDATE redrive.runs SET {_lease}
WHERE id IN (
    SELECT id FROM redrive.runs
    WHERE place = 'alone' AND queue = :queue AND workflow IN {items:workflows} AND {_may_claim}
    ORDER BY submitted_at
    LIMIT 1
)
RETURNING {columns:Claim}

-- name: begin_alone
UPDATE redrive.runs SET isolation = 2
WHERE id = :id AND token = :token AND epoch = :epoch AND place = 'leased'
RETURNING id

-- name: adopt
SELECT {columns:Claim} FROM redrive.runs WHERE place = 'leased' AND token = :token AND worker = :worker

-- name: failed
SELECT {columns:Claim} FROM redrive.runs
WHERE id = :id AND org = :org AND place = 'ended' AND state IN ('FAILED', 'DLQ_PENDING')
FOR UPDATE

-- name: reclaim
UPDATE redrive.runs SET token = :token, leased_until = :now + :ttl
WHERE id IN (
    SELECT id FROM redrive.runs
    WHERE place = 'leased' AND leased_until < :now AND leased_until >= :floor
    ORDER BY leased_until
    LIMIT :most
)
RETURNING {columns:Claim}

-- name: reclaimed
SELECT {columns:Claim} FROM redrive.runs WHERE place = 'leased' AND token = :token

-- name: renew
UPDATE redrive.runs SET leased_until = :now + :ttl
WHERE id = :id AND token = :token AND place = 'leased'
RETURNING id, token

-- name: kept
SELECT run.id, run.token FROM redrive.runs AS run
JOIN {batch:Renewal only id, token}
    ON run.id = batch.id AND run.token = batch.token
WHERE run.place || '' = 'leased' AND run.leased_until >= :now

-- name: cancelling
SELECT id, token FROM {_leased} AND cancel_requested_at IS NOT NULL AND worker = :worker

-- name: ready_queues
SELECT DISTINCT wanted.value FROM {items:queues} AS wanted
WHERE EXISTS (SELECT 1 FROM {_ready} AND queue = wanted.value)
    AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = wanted.value AND paused_at IS NOT NULL)

-- name: all_workflows
WITH RECURSIVE {_ready_queues}, {_ready_kinds}
SELECT workflow FROM kinds WHERE workflow IS NOT NULL
UNION SELECT workflow FROM {_alone}

-- name: ready_work
WITH RECURSIVE {_ready_queues}, {_ready_kinds}
SELECT queue, workflow FROM kinds WHERE workflow IS NOT NULL

-- name: isolated_queues
SELECT DISTINCT wanted.value FROM {items:queues} AS wanted
WHERE EXISTS (
        SELECT 1 FROM {_alone} AND queue = wanted.value AND workflow IN {items:workflows}
    )
    AND NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = wanted.value AND paused_at IS NOT NULL)

-- name: promote
UPDATE redrive.runs SET place = CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END, due_at = NULL
WHERE id IN (
    SELECT id FROM redrive.runs WHERE place = 'waiting' AND due_at <= :now AND due_at >= :floor ORDER BY due_at LIMIT :most
)
RETURNING queue

-- name: next_due
SELECT min(due_at) - :now, :now FROM {_waiting} AND due_at >= :floor
