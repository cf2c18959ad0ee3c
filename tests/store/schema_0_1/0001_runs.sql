CREATE TABLE redrive.definitions (
    digest text PRIMARY KEY,
    workflow text NOT NULL,
    body text NOT NULL,
    created_at double precision NOT NULL
);

CREATE TABLE redrive.runs (
    id text PRIMARY KEY,
    org text NOT NULL,
    workflow text NOT NULL,
    definition text NOT NULL,
    queue text NOT NULL,
    priority integer NOT NULL,
    state text NOT NULL,
    place text NOT NULL,
    submitted_at double precision NOT NULL,
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
    lonely_losses integer NOT NULL,
    alone integer NOT NULL,
    previous_delay double precision,
    error_class text,
    first_failed_at double precision,
    last_failed_at double precision,
    token bigint,
    worker text,
    code_version text,
    lease_expires_at double precision,
    attempt_started_at double precision,
    started_at double precision,
    ended_at double precision,
    idempotency_key text,
    request_hash text,
    correlation_id text NOT NULL,
    tags text,
    metadata text,
    slots text,
    policy_override text,
    cancel_requested_at double precision,
    progress text
) /* postgres: WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0) */;

CREATE UNIQUE INDEX runs_idempotency ON redrive.runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_ready ON redrive.runs (queue, priority DESC, submitted_at, id) WHERE place = 'ready';
CREATE INDEX runs_waiting ON redrive.runs (due_at) WHERE place = 'waiting';
CREATE INDEX runs_held ON redrive.runs (held_by, priority DESC, submitted_at, id) WHERE place = 'held';
CREATE INDEX runs_alone ON redrive.runs (queue, submitted_at) WHERE place = 'alone';
CREATE INDEX runs_leased ON redrive.runs (lease_expires_at) WHERE place = 'leased';
CREATE INDEX runs_cancelling ON redrive.runs (worker) WHERE place = 'leased' AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_ended ON redrive.runs (ended_at) WHERE place = 'ended' AND state IN ('SUCCESS', 'CANCELLED');

CREATE TABLE redrive.steps (
    run_id text NOT NULL,
    step_index integer NOT NULL,
    name text NOT NULL,
    task text NOT NULL,
    state text NOT NULL,
    output text,
    attempts integer NOT NULL,
    worker text,
    code_version text,
    started_at double precision,
    ended_at double precision,
    PRIMARY KEY (run_id, step_index)
);

CREATE TABLE redrive.attempts (
    run_id text NOT NULL,
    step_index integer NOT NULL,
    number integer NOT NULL,
    outcome text NOT NULL,
    worker text,
    code_version text,
    started_at double precision,
    ended_at double precision NOT NULL,
    delay double precision,
    category text,
    error_class text,
    error_type text,
    message text,
    stack text,
    http_status integer,
    public_code text,
    public_message text,
    reason text NOT NULL,
    explanation text NOT NULL,
    PRIMARY KEY (run_id, step_index, number)
);

CREATE TABLE redrive.run_events (
    id text PRIMARY KEY,
    run_id text NOT NULL,
    kind text NOT NULL,
    at double precision NOT NULL,
    step_index integer NOT NULL,
    detail text NOT NULL
);
CREATE INDEX run_events_of_run ON redrive.run_events (run_id);

CREATE TABLE redrive.dead_letters (
    id text PRIMARY KEY,
    org text NOT NULL,
    run_id text NOT NULL,
    step_index integer NOT NULL,
    step text NOT NULL,
    task text NOT NULL,
    workflow text NOT NULL,
    queue text NOT NULL,
    state text NOT NULL,
    category text NOT NULL,
    error_class text NOT NULL,
    error_type text NOT NULL,
    message text NOT NULL,
    stack text NOT NULL,
    http_status integer,
    public_code text NOT NULL,
    public_message text NOT NULL,
    reason text NOT NULL,
    explanation text NOT NULL,
    fingerprint text NOT NULL,
    fingerprint_reason text NOT NULL,
    title text NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    first_failed_at double precision,
    last_failed_at double precision,
    payload text NOT NULL,
    config text NOT NULL,
    policy text NOT NULL,
    idempotency_key text NOT NULL,
    correlation_id text NOT NULL,
    tags text,
    metadata text,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    replay_count integer NOT NULL,
    last_replayed_at double precision,
    last_replayed_by text,
    replay_override text,
    resolved_by text,
    resolved_at double precision,
    resolution text
);
CREATE UNIQUE INDEX dead_letters_live ON redrive.dead_letters (run_id, step_index)
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED');
CREATE INDEX dead_letters_of_run ON redrive.dead_letters (run_id, step_index);
CREATE INDEX dead_letters_closed ON redrive.dead_letters (updated_at)
    WHERE state IN ('RESOLVED', 'IGNORED', 'ARCHIVED');
CREATE INDEX dead_letters_by_state ON redrive.dead_letters (org, state, created_at);

CREATE TABLE redrive.queues (
    name text PRIMARY KEY,
    paused_at double precision,
    paused_by text,
    reason text
);

CREATE TABLE redrive.breakers (
    name text PRIMARY KEY,
    body text NOT NULL,
    closed_at double precision,
    released integer NOT NULL,
    updated_at double precision NOT NULL
);

CREATE TABLE redrive.limits (
    name text PRIMARY KEY,
    maximum integer NOT NULL,
    in_use integer NOT NULL
);

CREATE TABLE redrive.workers (
    id text PRIMARY KEY,
    started_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    code_version text NOT NULL,
    queues text NOT NULL,
    concurrency integer NOT NULL,
    in_flight integer NOT NULL,
    state text NOT NULL,
    host text NOT NULL,
    process integer NOT NULL
);
