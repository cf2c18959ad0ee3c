-- SQLite cannot take a default away from a column: the table is written again.
ALTER TABLE runs RENAME TO runs_0_1;

CREATE TABLE runs (
    id text PRIMARY KEY,
    org text NOT NULL,
    workflow text NOT NULL,
    definition text NOT NULL,
    queue text NOT NULL,
    priority integer NOT NULL,
    state text NOT NULL,
    place text NOT NULL,
    submitted_at double precision NOT NULL,
    sort_key double precision NOT NULL,
    due_at double precision,
    held_by text,
    step_index integer NOT NULL,
    step_state text NOT NULL,
    input text NOT NULL,
    step_input text,
    result text,
    attempt integer NOT NULL,
    epoch integer NOT NULL,
    failures integer NOT NULL,
    rate_limit_waits integer NOT NULL,
    holds integer NOT NULL,
    losses integer NOT NULL,
    isolated_crashes integer NOT NULL,
    isolation integer NOT NULL,
    previous_delay double precision,
    error_class text,
    first_failed_at double precision,
    last_failed_at double precision,
    token bigint,
    worker text,
    code_version text,
    leased_until double precision,
    attempt_started_at double precision,
    started_at double precision,
    ended_at double precision,
    idempotency_key text,
    request_hash text,
    given_correlation_id text,
    correlation_id text GENERATED ALWAYS AS (COALESCE(given_correlation_id, id)) VIRTUAL,
    tags text,
    metadata text,
    slots text,
    policy_override text,
    cancel_requested_at double precision,
    progress text,
    replays integer NOT NULL DEFAULT 0,
    step_only integer NOT NULL DEFAULT 0,
    redrives integer NOT NULL DEFAULT 0,
    has_letter integer NOT NULL DEFAULT 0
);

INSERT INTO runs (
    id, org, workflow, definition, queue, priority, state, place, submitted_at, sort_key, due_at, held_by,
    step_index, step_state, input, step_input, result, attempt, epoch, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, previous_delay, error_class, first_failed_at, last_failed_at, token, worker,
    code_version, leased_until, attempt_started_at, started_at, ended_at, idempotency_key, request_hash,
    given_correlation_id, tags, metadata, slots, policy_override, cancel_requested_at, progress, replays, step_only,
    redrives, has_letter
)
SELECT
    id, org, workflow, definition, queue, priority, state, place, submitted_at, sort_key, due_at, held_by,
    step_index, step_state, input, step_input, result, attempt, epoch, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, previous_delay, error_class, first_failed_at, last_failed_at, token, worker,
    code_version, lease_expires_at, attempt_started_at, started_at, ended_at, idempotency_key, request_hash,
    NULLIF(correlation_id, id), tags, metadata, slots, policy_override, cancel_requested_at, progress, replays, step_only,
    redrives, has_letter
FROM runs_0_1;
DROP TABLE runs_0_1;

CREATE UNIQUE INDEX runs_idempotency ON runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_ready ON runs (queue, sort_key, id) WHERE place = 'ready';
CREATE INDEX runs_waiting ON runs (due_at, queue) WHERE place = 'waiting';
CREATE INDEX runs_held ON runs (held_by, sort_key, id, queue) WHERE place = 'held';
CREATE INDEX runs_alone ON runs (queue, submitted_at) WHERE place = 'alone';
CREATE INDEX runs_leased ON runs (leased_until) WHERE place = 'leased';
CREATE INDEX runs_cancelling ON runs (worker) WHERE place = 'leased' AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE place = 'ended' AND state IN ('SUCCESS', 'CANCELLED');
CREATE INDEX runs_idle ON runs (org, queue, place, state, workflow, submitted_at, id, held_by, step_state)
    WHERE place <> 'ended' AND place <> 'leased';
CREATE INDEX runs_over ON runs (org, workflow, queue, state, submitted_at, id) WHERE place = 'ended';
CREATE INDEX runs_correlated ON runs (org, correlation_id, submitted_at, id) WHERE given_correlation_id IS NOT NULL;
