-- name: _fence
id = :id AND token = :token AND epoch = :epoch AND place = 'leased'

-- name: _goes_on
:in_place = 1 AND cancel_requested_at IS NULL

-- name: _clean
failures = 0, rate_limit_waits = 0, holds = 0, losses = 0, lonely_losses = 0, alone = 0, previous_delay = NULL,
    error_class = NULL, first_failed_at = NULL, last_failed_at = NULL, slots = NULL, progress = NULL

-- name: complete
UPDATE redrive.runs
SET place = 'ended', state = 'SUCCESS', step_state = 'SUCCESS', result = :result, ended_at = :now,
    lease_expires_at = NULL, {_clean}
WHERE {_fence}
RETURNING id, place

-- name: complete_partly
UPDATE redrive.runs
SET place = 'ended', state = 'PARTIAL', step_state = 'SUCCESS', ended_at = :now, lease_expires_at = NULL, {_clean}
WHERE {_fence}
RETURNING id, place

-- name: _used_before
-- Attempts of the next step, where a replay has gone back behind it: their numbers are not given out again.
CASE WHEN replays = 0 THEN 0 ELSE COALESCE((
        SELECT max(past.number) FROM redrive.attempts AS past
        WHERE past.run_id = redrive.runs.id AND past.step_index = redrive.runs.step_index + 1), 0) END

-- name: _redriven_before
-- Automatic redrives that the dead letter of the next step has used, where a replay has gone back behind it.
CASE WHEN replays = 0 THEN 0 ELSE COALESCE((
        SELECT letter.redrives FROM redrive.dead_letters AS letter
        WHERE letter.run_id = redrive.runs.id AND letter.step_index = redrive.runs.step_index + 1
            AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')), 0) END

-- name: advance
UPDATE redrive.runs
SET step_index = step_index + 1, step_state = CASE WHEN {_goes_on} THEN 'RUNNING' ELSE 'PENDING' END,
    step_input = :step_input, place = CASE WHEN {_goes_on} THEN 'leased' ELSE 'ready' END, queue = :queue,
    attempt = CASE WHEN {_goes_on} THEN 1 ELSE {_used_before} END,
    epoch = CASE WHEN {_goes_on} THEN epoch + 1 ELSE epoch END,
    attempt_started_at = CASE WHEN {_goes_on} THEN :now END,
    lease_expires_at = CASE WHEN {_goes_on} THEN :now + :ttl END,
    policy_override = NULL, redrives = {_redriven_before}, {_clean}
WHERE {_fence}
RETURNING id, place

-- name: reschedule
UPDATE redrive.runs
SET place = CASE WHEN cancel_requested_at IS NULL THEN :place ELSE 'ready' END, step_state = :step_state,
    due_at = CASE WHEN :place = 'waiting' AND cancel_requested_at IS NULL THEN :now + :delay END,
    attempt = attempt - :given_back, failures = :failures, rate_limit_waits = :rate_limit_waits, holds = :holds,
    losses = :losses,
    lonely_losses = :lonely_losses, alone = :alone, previous_delay = :previous_delay, error_class = :error_class,
    first_failed_at = CASE WHEN :failed = 1 THEN COALESCE(first_failed_at, :now) ELSE first_failed_at END,
    last_failed_at = CASE WHEN :failed = 1 THEN :now ELSE last_failed_at END,
    lease_expires_at = NULL, slots = NULL
WHERE {_fence}
RETURNING id, place

-- name: stop
UPDATE redrive.runs
SET place = 'ended', state = :state, step_state = :step_state, ended_at = :now,
    failures = :failures, error_class = :error_class,
    first_failed_at = CASE WHEN :failed = 1 THEN COALESCE(first_failed_at, :now) ELSE first_failed_at END,
    last_failed_at = CASE WHEN :failed = 1 THEN :now ELSE last_failed_at END,
    lease_expires_at = NULL, slots = NULL
WHERE {_fence}
RETURNING id, place

-- name: park
UPDATE redrive.runs
SET place = CASE WHEN cancel_requested_at IS NULL THEN 'held' ELSE 'ready' END,
    held_by = CASE WHEN cancel_requested_at IS NULL THEN :held_by END,
    step_state = :step_state, attempt = attempt - 1, holds = :holds,
    alone = CASE WHEN alone > 0 THEN 1 ELSE 0 END, lease_expires_at = NULL
WHERE {_fence}
RETURNING id, place

-- name: occupied
SELECT id, slots FROM redrive.runs WHERE {_fence}

-- name: occupy
UPDATE redrive.runs SET slots = :slots WHERE {_fence} RETURNING id

-- name: progress
UPDATE redrive.runs SET progress = :progress WHERE {_fence}

-- name: insert_attempt
INSERT INTO redrive.attempts (run_id, step_index, number, outcome, worker, code_version, started_at, ended_at, delay,
    category, error_class, error_type, message, stack, http_status, public_code, public_message, reason, explanation,
    replay)
VALUES (:run_id, :step_index, :number, :outcome, :worker, :code_version, :started_at, :now, :delay,
    :category, :error_class, :error_type, :message, :stack, :http_status, :public_code, :public_message, :reason,
    :explanation, :replay)
ON CONFLICT (run_id, step_index, number) DO NOTHING

-- name: insert_step
INSERT INTO redrive.steps (run_id, step_index, name, task, state, output, attempts, worker, code_version, started_at,
    ended_at)
VALUES (:run_id, :step_index, :name, :task, :state, :output, :attempts, :worker, :code_version, :started_at, :now)
ON CONFLICT (run_id, step_index) DO UPDATE
SET state = excluded.state, output = excluded.output, attempts = excluded.attempts, worker = excluded.worker,
    code_version = excluded.code_version, started_at = excluded.started_at, ended_at = excluded.ended_at

-- name: insert_event
INSERT INTO redrive.run_events (id, run_id, kind, at, step_index, detail)
VALUES (:id, :run_id, :kind, :now, :step_index, :detail)

-- name: _letter_again
ON CONFLICT (run_id, step_index) WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') DO UPDATE
SET state = excluded.state, category = excluded.category, error_class = excluded.error_class,
    error_type = excluded.error_type, message = excluded.message, stack = excluded.stack,
    http_status = excluded.http_status, public_code = excluded.public_code,
    public_message = excluded.public_message, reason = excluded.reason, explanation = excluded.explanation,
    fingerprint = excluded.fingerprint, fingerprint_reason = excluded.fingerprint_reason, title = excluded.title,
    attempts = excluded.attempts, failures = excluded.failures, first_failed_at = excluded.first_failed_at,
    last_failed_at = excluded.last_failed_at, payload = excluded.payload, config = excluded.config,
    policy = excluded.policy, updated_at = excluded.updated_at, effect = excluded.effect,
    may_have_executed = excluded.may_have_executed, breaker = excluded.breaker, code_version = excluded.code_version,
    template = excluded.template, runbook = excluded.runbook, redrive = excluded.redrive,
    redrive_policy = excluded.redrive_policy, redrives = excluded.redrives, max_redrives = excluded.max_redrives,
    next_redrive_at = excluded.next_redrive_at, exhausted_at = excluded.exhausted_at

-- name: insert_dead_letter
INSERT INTO redrive.dead_letters (id, org, run_id, step_index, step, task, workflow, queue, state, category, error_class,
    error_type, message, stack, http_status, public_code, public_message, reason, explanation, fingerprint,
    fingerprint_reason, title, attempts, failures, first_failed_at, last_failed_at, payload, config, policy,
    idempotency_key, correlation_id, tags, metadata, created_at, updated_at, replay_count, effect, may_have_executed,
    breaker, code_version, priority, assignee, template, runbook, redrive, redrive_policy, redrives, max_redrives,
    next_redrive_at, exhausted_at)
SELECT :id, org, id, step_index, :step, :task, workflow, queue, :state, :category, :error_class,
    :error_type, :message, :stack, :http_status, :public_code, :public_message, :reason, :explanation, :fingerprint,
    :fingerprint_reason, :title, attempt, failures, first_failed_at, last_failed_at, :payload, :config, :policy,
    :idempotency_key, :correlation_id, :tags, :metadata, :now, :now, 0, :effect, :may_have_executed, :breaker,
    :code_version, priority, :assignee, :template, :runbook, :redrive, :redrive_policy, :redrives, :max_redrives,
    :now + :redrive_delay, CASE WHEN :state = 'EXHAUSTED' THEN :now END
FROM redrive.runs WHERE id = :run_id
{_letter_again}
RETURNING run_id, id

-- name: free_slots
UPDATE redrive.limits SET in_use = CASE WHEN in_use > :freed THEN in_use - :freed ELSE 0 END WHERE name = :name
