-- name: count_gone
-- Each change of a counter is inserted as a row: see the triggers.
INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT CAST(:org AS text), 'left', '', CAST(floor(:now / 300) AS bigint) * 300, count(*) {_gone}
    AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
HAVING count(*) > 0

-- name: _taken
-- The lease under which a failed task is recorded.
attempt, epoch, token, worker, code_version, attempt_started_at, leased_until

-- name: _first_lease
submitted_at, sort_key, started_at, step_index, priority, failures, rate_limit_waits, holds, losses, isolated_crashes,
    isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue

-- name: insert
-- A run is two rows: its input, and its work, here a lease.
WITH given AS (
    INSERT INTO redrive.run_inputs (id, org, definition, input, idempotency_key, request_hash, correlation_id, tags, metadata)
    VALUES (:id, :org, :definition, :input, :key, :request_hash, NULLIF(CAST(:correlation_id AS text), {text:CAST(:id AS uuid)}), :tags,
        :metadata)
), leased AS (
    INSERT INTO redrive.leases ({_first_lease}, {_taken})
    VALUES (:now, :now - {_hour} * CAST(:priority AS integer), :now, 0, :priority, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, :id, :org,
        :workflow, :queue, :attempt, 1, :token, :worker, :code_version, :now, :now + 60)
    RETURNING *
)
SELECT {columns:Claim} FROM leased CROSS JOIN (
    SELECT CAST(:definition AS text) AS definition, CAST(:input AS text) AS input, CAST(:key AS text) AS idempotency_key,
        CAST(:correlation_id AS text) AS correlation_id, CAST(:tags AS text) AS tags, CAST(:metadata AS text) AS metadata
) AS given

-- name: take_again
-- The work moves from ended into leases; the input of the run stays.
WITH gone AS (
    DELETE FROM redrive.ended WHERE id = :run_id AND org = :org RETURNING *
), given AS (
    UPDATE redrive.run_inputs
    SET definition = :definition, tags = :tags, metadata = COALESCE(CAST(:metadata AS text), metadata)
    FROM gone WHERE redrive.run_inputs.id = gone.id
    RETURNING definition, input, idempotency_key, COALESCE(correlation_id, {text:gone.id}) AS correlation_id, tags, metadata
), leased AS (
    INSERT INTO redrive.leases ({_first_lease}, {_taken}, cancel_requested_at, error_class, first_failed_at, last_failed_at,
        progress)
    SELECT submitted_at, submitted_at - {_hour} * CAST(:priority AS integer), started_at, step_index, :priority, 0, 0, 0, 0,
        0, 0, COALESCE(replays, 0) + 1, COALESCE(redrives, 0), 0, 1, id, org, :workflow, queue, attempt + 1, epoch + 1,
        :token, :worker, :code_version, :now, :now + 60, cancel_requested_at, error_class, first_failed_at, last_failed_at,
        progress
    FROM gone
    RETURNING *
)
SELECT {columns:Claim} FROM leased CROSS JOIN given

-- name: clear_runs
-- A run is two rows.
WITH gone AS (DELETE FROM redrive.ended WHERE id IN ({_removable}) RETURNING id)
DELETE FROM redrive.run_inputs WHERE id IN (SELECT id FROM gone)
