-- name: _may_claim
NOT EXISTS (SELECT 1 FROM redrive.queues WHERE name = :queue AND paused_at IS NOT NULL)

-- name: _set_by_claims
attempt, epoch, token, worker, code_version, attempt_started_at, started_at

-- name: _leased_from_gone
leased AS (
    INSERT INTO redrive.leases ({columns:WorkRow except {_set_by_claims}}, {_set_by_claims}, leased_until)
    SELECT {columns:WorkRow except {_set_by_claims}}, attempt + 1, epoch + 1, :token, :worker, :code_version, :clock,
        COALESCE(started_at, :clock), :now + :ttl
    FROM gone
    RETURNING *
)

-- name: _picked
-- Most queues have ready runs of one workflow that the worker knows: lock the next runs of that one. With several, first
-- count without locks how many of the next runs each workflow has; then lock so many of each. If other workers have locked
-- some of them, lock later runs of any workflow instead: the last LIMIT ends the loop as soon as there are enough.
known AS MATERIALIZED (
    SELECT value AS workflow FROM {items:workflows} AS named CROSS JOIN LATERAL (
        SELECT 1 FROM redrive.ready WHERE queue = :queue AND workflow = named.value AND sort_key >= :floor LIMIT 1
    ) AS any_run
    WHERE {_may_claim}
), several AS MATERIALIZED (
    SELECT workflow FROM known WHERE (SELECT count(*) FROM known) > 1
), share AS MATERIALIZED (
    SELECT workflow, count(*) AS number FROM (
        SELECT several.workflow FROM several CROSS JOIN LATERAL (
            SELECT sort_key, id FROM redrive.ready
            WHERE queue = :queue AND workflow = several.workflow AND sort_key >= :floor
            ORDER BY sort_key, id LIMIT :most
        ) AS next
        ORDER BY next.sort_key, next.id LIMIT :most
    ) AS first
    GROUP BY workflow
), picked AS MATERIALIZED (
    SELECT locked.* FROM (
        SELECT workflow, :most AS number, 0 AS passed FROM known WHERE (SELECT count(*) FROM known) = 1
        UNION ALL
        SELECT workflow, number, 0 FROM share
        UNION ALL
        SELECT workflow, :most, COALESCE(number, 0) FROM several LEFT JOIN share USING (workflow)
        WHERE (SELECT sum(number) FROM share) = :most
    ) AS turn CROSS JOIN LATERAL (
        SELECT ctid AS address, sort_key, id, step_input FROM redrive.ready
        WHERE queue = :queue AND workflow = turn.workflow AND sort_key >= :floor
        ORDER BY sort_key, id LIMIT turn.number OFFSET turn.passed
        FOR UPDATE SKIP LOCKED
    ) AS locked
    LIMIT :most
)

-- name: claim
-- The work moves from ready into leases. SKIP LOCKED, so that workers do not wait for each other. The rows are deleted
-- by their physical address, so that no query plan can take more than were picked.
WITH {_picked}, gone AS (
    DELETE FROM redrive.ready WHERE ctid = ANY (ARRAY(SELECT address FROM picked))
    RETURNING *
), {_leased_from_gone}
{_claims}

-- name: claim_within
-- As claim. The size of a text is read without the text.
WITH {_picked}, gone AS (
    DELETE FROM redrive.ready WHERE ctid = ANY (ARRAY(
        SELECT address FROM (
            SELECT address, sum(size) OVER (ORDER BY sort_key, id) - size AS before FROM (
                SELECT address, sort_key, picked.id, COALESCE(octet_length(step_input), 0) + (
                    SELECT octet_length(input) FROM redrive.run_inputs AS given WHERE given.id = picked.id
                ) AS size
                FROM picked
            ) AS sized
        ) AS summed
        WHERE before < CAST(:bytes AS bigint)
    ))
    RETURNING *
), {_leased_from_gone}
{_claims}

-- name: claim_alone
-- As claim, but from idle.
WITH gone AS (
    DELETE FROM redrive.idle WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.idle
        WHERE place = 'alone' AND queue = :queue AND workflow IN {items:workflows} AND {_may_claim}
        ORDER BY submitted_at
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
), {_leased_from_gone}
{_claims}

-- name: begin_alone
-- A lease is a separate row.
UPDATE redrive.leases SET isolation = 2
WHERE id = :id AND token = :token AND epoch = :epoch
RETURNING id

-- name: adopt
-- A lease is a separate row.
WITH leased AS (SELECT * FROM redrive.leases WHERE token = :token AND worker = :worker)
{_claims}

-- name: failed
-- Lock the row that a replay deletes.
SELECT {columns:Claim} FROM (
    SELECT run.id, run.org, run.workflow, given.definition, run.queue, run.priority, run.submitted_at, run.step_index,
        given.input, run.step_input, run.attempt, run.epoch, COALESCE(run.failures, 0) AS failures,
        COALESCE(run.rate_limit_waits, 0) AS rate_limit_waits, COALESCE(run.holds, 0) AS holds,
        COALESCE(run.losses, 0) AS losses, COALESCE(run.isolated_crashes, 0) AS isolated_crashes, run.previous_delay,
        run.attempt_started_at, run.token, run.worker, run.code_version, given.idempotency_key,
        COALESCE(given.correlation_id, {text:run.id}) AS correlation_id, given.tags, given.metadata, NULL AS slots,
        run.policy_override, COALESCE(run.isolation, 0) AS isolation, run.cancel_requested_at,
        COALESCE(run.replays, 0) AS replays, COALESCE(run.step_only, 0) AS step_only,
        COALESCE(run.redrives, 0) AS redrives, COALESCE(run.has_letter, 0) AS has_letter,
        run.submitted_at - {_hour} * run.priority AS sort_key
    FROM redrive.ended AS run JOIN redrive.run_inputs AS given ON given.id = run.id
    WHERE run.id = :id AND run.org = :org AND run.state IN ('FAILED', 'DLQ_PENDING')
    FOR UPDATE OF run
) AS failed

-- name: reclaim
-- SKIP LOCKED, as in claim. With the lock, PostgreSQL checks the expiry again on the newest version of the row.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.leases
    WHERE leased_until < :now AND leased_until >= :floor
    ORDER BY leased_until
    LIMIT :most
    FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE redrive.leases SET token = :token, leased_until = :now + :ttl FROM picked WHERE id = picked_id
    RETURNING redrive.leases.*
)
{_claims}

-- name: reclaimed
-- A lease is a separate row.
WITH leased AS (SELECT * FROM redrive.leases WHERE token = :token)
{_claims}

-- name: renew
-- SKIP LOCKED: a run that is being recorded now needs no renewal.
WITH picked AS MATERIALIZED (
    SELECT lease.id AS picked_id, batch.ttl AS picked_ttl FROM redrive.leases AS lease
    JOIN {batch:Renewal} ON lease.id = batch.id AND lease.token = batch.token
    FOR UPDATE OF lease SKIP LOCKED
)
UPDATE redrive.leases SET leased_until = :now + picked_ttl FROM picked WHERE id = picked_id
RETURNING id, token

-- name: kept
-- A lease is a separate row.
SELECT lease.id, lease.token FROM redrive.leases AS lease
JOIN {batch:Renewal only id, token}
    ON lease.id = batch.id AND lease.token = batch.token
WHERE lease.leased_until >= :now

-- name: promote
-- The work moves out of idle, or to another place in idle. SKIP LOCKED, as in claim.
WITH gone AS (
    DELETE FROM redrive.idle WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.idle
        WHERE place = 'waiting' AND due_at <= :now AND due_at >= :floor
        ORDER BY due_at
        LIMIT :most
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
), moved AS (
    SELECT {columns:WorkRow}, CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END AS place, state, step_state,
        CAST(NULL AS double precision) AS due_at, CAST(NULL AS text) AS held_by
    FROM gone
), {_queued}
SELECT queue FROM moved
