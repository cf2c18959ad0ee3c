-- name: _goes_on
-- In a batch it is a column.
in_place = 1 AND cancel_requested_at IS NULL

-- name: complete
-- One round trip for the whole batch. Here and below, || '' keeps PostgreSQL from reading all leases by their index.
UPDATE redrive.runs AS run
SET place = 'ended', state = 'SUCCESS', step_state = 'SUCCESS', result = batch.result, ended_at = :now,
    lease_expires_at = NULL, {_clean}
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[]), CAST(:result AS text[]))
    AS batch (id, token, epoch, result)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'
RETURNING run.id, run.place

-- name: complete_partly
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET place = 'ended', state = 'PARTIAL', step_state = 'SUCCESS', ended_at = :now, lease_expires_at = NULL, {_clean}
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[])) AS batch (id, token, epoch)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'
RETURNING run.id, run.place

-- name: _used_before
-- In a batch the run has another name.
CASE WHEN replays = 0 THEN 0 ELSE COALESCE((
        SELECT max(past.number) FROM redrive.attempts AS past
        WHERE past.run_id = run.id AND past.step_index = run.step_index + 1), 0) END

-- name: _redriven_before
-- In a batch the run has another name.
CASE WHEN replays = 0 THEN 0 ELSE COALESCE((
        SELECT letter.redrives FROM redrive.dead_letters AS letter
        WHERE letter.run_id = run.id AND letter.step_index = run.step_index + 1
            AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')), 0) END

-- name: advance
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET step_index = step_index + 1,
    step_state = CASE WHEN {_goes_on} THEN 'RUNNING' ELSE 'PENDING' END,
    step_input = batch.step_input, queue = batch.queue,
    place = CASE WHEN {_goes_on} THEN 'leased' ELSE 'ready' END,
    attempt = CASE WHEN {_goes_on} THEN 1 ELSE {_used_before} END,
    epoch = CASE WHEN {_goes_on} THEN run.epoch + 1 ELSE run.epoch END,
    attempt_started_at = CASE WHEN {_goes_on} THEN :now END,
    lease_expires_at = CASE WHEN {_goes_on} THEN :now + batch.ttl END,
    policy_override = NULL, redrives = {_redriven_before}, {_clean}
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[]), CAST(:step_input AS text[]),
    CAST(:queue AS text[]), CAST(:in_place AS integer[]), CAST(:ttl AS double precision[]))
    AS batch (id, token, epoch, step_input, queue, in_place, ttl)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'
RETURNING run.id, run.place

-- name: reschedule
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET place = CASE WHEN cancel_requested_at IS NULL THEN batch.place ELSE 'ready' END, step_state = batch.step_state,
    due_at = CASE WHEN batch.place = 'waiting' AND cancel_requested_at IS NULL THEN :now + batch.delay END,
    attempt = run.attempt - batch.given_back, failures = batch.failures, rate_limit_waits = batch.rate_limit_waits,
    holds = batch.holds, losses = batch.losses,
    lonely_losses = batch.lonely_losses, alone = batch.alone, previous_delay = batch.previous_delay,
    error_class = batch.error_class,
    first_failed_at = CASE WHEN batch.failed = 1 THEN COALESCE(first_failed_at, :now) ELSE first_failed_at END,
    last_failed_at = CASE WHEN batch.failed = 1 THEN :now ELSE last_failed_at END,
    lease_expires_at = NULL, slots = NULL
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[]), CAST(:place AS text[]),
    CAST(:step_state AS text[]), CAST(:delay AS double precision[]), CAST(:failures AS integer[]),
    CAST(:rate_limit_waits AS integer[]), CAST(:holds AS integer[]), CAST(:losses AS integer[]),
    CAST(:lonely_losses AS integer[]), CAST(:alone AS integer[]), CAST(:previous_delay AS double precision[]),
    CAST(:error_class AS text[]), CAST(:failed AS integer[]), CAST(:given_back AS integer[]))
    AS batch (id, token, epoch, place, step_state, delay, failures, rate_limit_waits, holds, losses, lonely_losses,
        alone, previous_delay, error_class, failed, given_back)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'
RETURNING run.id, run.place

-- name: stop
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET place = 'ended', state = batch.state, step_state = batch.step_state, ended_at = :now,
    failures = batch.failures, error_class = batch.error_class,
    first_failed_at = CASE WHEN batch.failed = 1 THEN COALESCE(first_failed_at, :now) ELSE first_failed_at END,
    last_failed_at = CASE WHEN batch.failed = 1 THEN :now ELSE last_failed_at END,
    lease_expires_at = NULL, slots = NULL
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[]), CAST(:state AS text[]),
    CAST(:step_state AS text[]), CAST(:failures AS integer[]), CAST(:error_class AS text[]), CAST(:failed AS integer[]))
    AS batch (id, token, epoch, state, step_state, failures, error_class, failed)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'
RETURNING run.id, run.place

-- name: park
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET place = CASE WHEN cancel_requested_at IS NULL THEN 'held' ELSE 'ready' END,
    held_by = CASE WHEN cancel_requested_at IS NULL THEN batch.held_by END,
    step_state = batch.step_state, attempt = run.attempt - 1, holds = batch.holds,
    alone = CASE WHEN alone > 0 THEN 1 ELSE 0 END, lease_expires_at = NULL
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[]), CAST(:held_by AS text[]),
    CAST(:step_state AS text[]), CAST(:holds AS integer[]))
    AS batch (id, token, epoch, held_by, step_state, holds)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'
RETURNING run.id, run.place

-- name: insert_attempt
-- One round trip for the whole batch.
INSERT INTO redrive.attempts (run_id, step_index, number, outcome, worker, code_version, started_at, ended_at, delay,
    category, error_class, error_type, message, stack, http_status, public_code, public_message, reason, explanation,
    replay)
SELECT run_id, step_index, number, outcome, worker, code_version, started_at, :now, delay,
    category, error_class, error_type, message, stack, http_status, public_code, public_message, reason, explanation,
    replay
FROM unnest(CAST(:run_id AS text[]), CAST(:step_index AS integer[]), CAST(:number AS integer[]),
    CAST(:outcome AS text[]), CAST(:worker AS text[]), CAST(:code_version AS text[]),
    CAST(:started_at AS double precision[]), CAST(:delay AS double precision[]), CAST(:category AS text[]),
    CAST(:error_class AS text[]), CAST(:error_type AS text[]), CAST(:message AS text[]), CAST(:stack AS text[]),
    CAST(:http_status AS integer[]), CAST(:public_code AS text[]), CAST(:public_message AS text[]),
    CAST(:reason AS text[]), CAST(:explanation AS text[]), CAST(:replay AS integer[]))
    AS batch (run_id, step_index, number, outcome, worker, code_version, started_at, delay, category, error_class,
        error_type, message, stack, http_status, public_code, public_message, reason, explanation, replay)
ON CONFLICT (run_id, step_index, number) DO NOTHING

-- name: insert_step
-- One round trip for the whole batch.
INSERT INTO redrive.steps (run_id, step_index, name, task, state, output, attempts, worker, code_version, started_at,
    ended_at)
SELECT run_id, step_index, name, task, state, output, attempts, worker, code_version, started_at, :now
FROM unnest(CAST(:run_id AS text[]), CAST(:step_index AS integer[]), CAST(:name AS text[]), CAST(:task AS text[]),
    CAST(:state AS text[]), CAST(:output AS text[]), CAST(:attempts AS integer[]), CAST(:worker AS text[]),
    CAST(:code_version AS text[]), CAST(:started_at AS double precision[]))
    AS batch (run_id, step_index, name, task, state, output, attempts, worker, code_version, started_at)
ON CONFLICT (run_id, step_index) DO UPDATE
SET state = excluded.state, output = excluded.output, attempts = excluded.attempts, worker = excluded.worker,
    code_version = excluded.code_version, started_at = excluded.started_at, ended_at = excluded.ended_at

-- name: insert_dead_letter
-- One round trip for the whole batch.
INSERT INTO redrive.dead_letters (id, org, run_id, step_index, step, task, workflow, queue, state, category, error_class,
    error_type, message, stack, http_status, public_code, public_message, reason, explanation, fingerprint,
    fingerprint_reason, title, attempts, failures, first_failed_at, last_failed_at, payload, config, policy,
    idempotency_key, correlation_id, tags, metadata, created_at, updated_at, replay_count, effect, may_have_executed,
    breaker, code_version, priority, assignee, template, runbook, redrive, redrive_policy, redrives, max_redrives,
    next_redrive_at, exhausted_at)
SELECT batch.id, run.org, run.id, run.step_index, batch.step, batch.task, run.workflow, run.queue, batch.state, batch.category,
    batch.error_class, batch.error_type, batch.message, batch.stack, batch.http_status, batch.public_code,
    batch.public_message, batch.reason, batch.explanation, batch.fingerprint, batch.fingerprint_reason, batch.title,
    run.attempt, run.failures, run.first_failed_at, run.last_failed_at, batch.payload, batch.config, batch.policy,
    batch.idempotency_key, batch.correlation_id, batch.tags, batch.metadata, :now, :now, 0, batch.effect,
    batch.may_have_executed, batch.breaker, batch.code_version, run.priority, batch.assignee, batch.template,
    batch.runbook, batch.redrive, batch.redrive_policy, batch.redrives, batch.max_redrives, :now + batch.redrive_delay,
    CASE WHEN batch.state = 'EXHAUSTED' THEN :now END
FROM unnest(CAST(:id AS text[]), CAST(:run_id AS text[]), CAST(:step AS text[]), CAST(:task AS text[]), CAST(:category
    AS text[]), CAST(:error_class AS text[]), CAST(:error_type AS text[]), CAST(:message AS text[]), CAST(:stack AS
    text[]), CAST(:http_status AS integer[]), CAST(:public_code AS text[]), CAST(:public_message AS text[]),
    CAST(:reason AS text[]), CAST(:explanation AS text[]), CAST(:fingerprint AS text[]), CAST(:fingerprint_reason AS
    text[]), CAST(:title AS text[]), CAST(:payload AS text[]), CAST(:config AS text[]), CAST(:policy AS text[]),
    CAST(:idempotency_key AS text[]), CAST(:correlation_id AS text[]), CAST(:tags AS text[]), CAST(:metadata AS
    text[]), CAST(:state AS text[]), CAST(:effect AS text[]), CAST(:may_have_executed AS integer[]), CAST(:breaker AS
    text[]), CAST(:code_version AS text[]), CAST(:assignee AS text[]), CAST(:template AS text[]), CAST(:runbook AS
    text[]), CAST(:redrive AS text[]), CAST(:redrive_policy AS text[]), CAST(:redrives AS integer[]),
    CAST(:max_redrives AS integer[]), CAST(:redrive_delay AS double precision[]))
    AS batch (id, run_id, step, task, category, error_class, error_type, message, stack, http_status, public_code,
        public_message, reason, explanation, fingerprint, fingerprint_reason, title, payload, config, policy,
        idempotency_key, correlation_id, tags, metadata, state, effect, may_have_executed, breaker, code_version,
        assignee, template, runbook, redrive, redrive_policy, redrives, max_redrives, redrive_delay)
JOIN redrive.runs AS run ON run.id = batch.run_id
{_letter_again}
RETURNING redrive.dead_letters.run_id, redrive.dead_letters.id

-- name: insert_event
-- One round trip for the whole batch.
INSERT INTO redrive.run_events (id, run_id, kind, at, step_index, detail)
SELECT id, run_id, kind, :now, step_index, detail
FROM unnest(CAST(:id AS text[]), CAST(:run_id AS text[]), CAST(:kind AS text[]), CAST(:step_index AS integer[]),
    CAST(:detail AS text[])) AS batch (id, run_id, kind, step_index, detail)

-- name: progress
-- One round trip for the whole batch.
UPDATE redrive.runs AS run SET progress = batch.progress
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[]), CAST(:progress AS text[]))
    AS batch (id, token, epoch, progress)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place || '' = 'leased'

-- name: occupied
-- SQLite locks the whole file, PostgreSQL the rows: a lease must not be taken over before its slots are noted.
SELECT run.id, run.slots FROM redrive.runs AS run
JOIN unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[])) AS batch (id, token, epoch)
    ON run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch
WHERE run.place || '' = 'leased'
FOR UPDATE OF run
