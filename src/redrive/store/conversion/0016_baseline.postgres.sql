-- The view did not exist before version 15.
DROP VIEW IF EXISTS redrive.runs;
ALTER TABLE redrive.leases RENAME COLUMN lease_expires_at TO leased_until;

CREATE VIEW redrive.runs AS
SELECT work.id, work.org, work.workflow, given.definition, work.queue, work.priority, work.state, work.place,
    work.submitted_at, work.sort_key, work.due_at, work.held_by, work.step_index, work.step_state, given.input,
    work.step_input, work.result, work.attempt, work.epoch, work.failures, work.rate_limit_waits, work.holds, work.losses,
    work.isolated_crashes, work.isolation, work.previous_delay, work.error_class, work.first_failed_at,
    work.last_failed_at, work.token, work.worker, work.code_version, work.leased_until, work.attempt_started_at,
    work.started_at, work.ended_at, given.idempotency_key, given.request_hash,
    given.correlation_id AS given_correlation_id,
    COALESCE(given.correlation_id, encode(uuid_send(work.id), 'hex')) AS correlation_id, given.tags,
    given.metadata, work.slots, work.policy_override, work.cancel_requested_at, work.progress, work.replays, work.step_only, work.redrives,
    work.has_letter
FROM (
    SELECT id, org, workflow, queue, priority, state, CAST('ended' AS text) COLLATE "C" AS place, submitted_at,
        submitted_at - 3600 * priority AS sort_key, CAST(NULL AS double precision) AS due_at,
        CAST(NULL AS text) COLLATE "C" AS held_by, step_index, step_state, step_input, result, attempt, epoch,
        COALESCE(failures, 0) AS failures, COALESCE(rate_limit_waits, 0) AS rate_limit_waits,
        COALESCE(holds, 0) AS holds, COALESCE(losses, 0) AS losses,
        COALESCE(isolated_crashes, 0) AS isolated_crashes, COALESCE(isolation, 0) AS isolation, previous_delay,
        error_class, first_failed_at, last_failed_at, token, worker, code_version,
        CAST(NULL AS double precision) AS leased_until, attempt_started_at, started_at, ended_at,
        CAST(NULL AS text) AS slots, policy_override, cancel_requested_at, progress, COALESCE(replays, 0) AS replays,
        COALESCE(step_only, 0) AS step_only, COALESCE(redrives, 0) AS redrives, COALESCE(has_letter, 0) AS has_letter
    FROM redrive.ended
    UNION ALL
    SELECT id, org, workflow, queue, priority, state, place, submitted_at, sort_key,
        CAST(NULL AS double precision) AS due_at, CAST(NULL AS text) COLLATE "C" AS held_by, step_index, step_state,
        step_input, CAST(NULL AS text) AS result, attempt, epoch, failures, rate_limit_waits, holds, losses,
        isolated_crashes, isolation, previous_delay, error_class, first_failed_at, last_failed_at, token, worker,
        code_version, CAST(NULL AS double precision) AS leased_until, attempt_started_at, started_at,
        CAST(NULL AS double precision) AS ended_at, CAST(NULL AS text) AS slots, policy_override,
        cancel_requested_at, progress, replays, step_only, redrives, has_letter
    FROM redrive.ready
    UNION ALL
    SELECT id, org, workflow, queue, priority, state, place, submitted_at, sort_key, due_at, held_by, step_index,
        step_state, step_input, CAST(NULL AS text) AS result, attempt, epoch, failures, rate_limit_waits, holds,
        losses, isolated_crashes, isolation, previous_delay, error_class, first_failed_at, last_failed_at, token,
        worker, code_version, CAST(NULL AS double precision) AS leased_until, attempt_started_at, started_at,
        CAST(NULL AS double precision) AS ended_at, CAST(NULL AS text) AS slots, policy_override,
        cancel_requested_at, progress, replays, step_only, redrives, has_letter
    FROM redrive.idle
    UNION ALL
    SELECT id, org, workflow, queue, priority, CAST('RUNNING' AS text) COLLATE "C" AS state,
        CAST('leased' AS text) COLLATE "C" AS place, submitted_at, sort_key,
        CAST(NULL AS double precision) AS due_at, CAST(NULL AS text) COLLATE "C" AS held_by, step_index,
        CAST('RUNNING' AS text) COLLATE "C" AS step_state, step_input, CAST(NULL AS text) AS result, attempt, epoch,
        failures, rate_limit_waits, holds, losses, isolated_crashes, isolation, previous_delay, error_class,
        first_failed_at, last_failed_at, token, worker, code_version, leased_until, attempt_started_at,
        started_at, CAST(NULL AS double precision) AS ended_at, slots, policy_override, cancel_requested_at,
        progress, replays, step_only, redrives, has_letter
    FROM redrive.leases
) AS work
LEFT JOIN redrive.run_inputs AS given ON given.id = work.id AND given.org = work.org
WHERE work.org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant';
