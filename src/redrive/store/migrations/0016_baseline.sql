-- The tables that both databases share. Runs and counters differ: see the files for PostgreSQL and for SQLite. The id of a
-- run is text on SQLite, which has no uuid.

-- Runs

-- The steps of a workflow as runs were started with them, under the hash of their text. Many runs share one.
CREATE TABLE redrive.definitions (
    digest text PRIMARY KEY,
    workflow text NOT NULL,
    body text NOT NULL,
    created_at double precision NOT NULL
);

-- Steps that have finished. A job of one step needs none.
CREATE TABLE redrive.steps (
    run_id uuid NOT NULL,
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

-- Attempts that did not succeed at once, with the error and the decision that followed.
CREATE TABLE redrive.attempts (
    run_id uuid NOT NULL,
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
    output text,
    replay integer NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, step_index, number)
);

-- Other events in the life of a run, such as a cancellation or a replay.
CREATE TABLE redrive.run_events (
    id text PRIMARY KEY,
    run_id uuid NOT NULL,
    kind text NOT NULL,
    at double precision NOT NULL,
    step_index integer NOT NULL,
    detail text NOT NULL
);
CREATE INDEX run_events_of_run ON redrive.run_events (run_id);

-- Workers and what they share

-- Queues that an operator has paused, or had paused.
CREATE TABLE redrive.queues (
    name text PRIMARY KEY,
    paused_at double precision,
    paused_by text,
    reason text
);

-- The state of each circuit breaker, and how much held work it has released since it closed.
CREATE TABLE redrive.breakers (
    name text PRIMARY KEY,
    body text NOT NULL,
    closed_at double precision,
    released integer NOT NULL,
    updated_at double precision NOT NULL
);

-- How many steps under a concurrency limit are in progress.
CREATE TABLE redrive.limits (
    name text PRIMARY KEY,
    maximum integer NOT NULL,
    in_use integer NOT NULL
);

-- Workers, with their last heartbeat.
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

-- Processes that redrive dead letters, with their last heartbeat.
CREATE TABLE redrive.processors (
    id text PRIMARY KEY,
    queue text NOT NULL,
    state text NOT NULL,
    interval_seconds double precision NOT NULL,
    started_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    redriven bigint NOT NULL
);

-- Dead letters

-- Failed steps, and failed tasks of other systems. The error itself is in the last attempt.
CREATE TABLE redrive.dead_letters (
    id text PRIMARY KEY,
    org text NOT NULL,
    run_id uuid NOT NULL,
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
    http_status integer,
    public_code text NOT NULL,
    reason text NOT NULL,
    fingerprint text NOT NULL,
    fingerprint_reason text NOT NULL,
    title text NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    first_failed_at double precision,
    last_failed_at double precision,
    payload text NOT NULL,
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
    resolution text,
    effect text NOT NULL DEFAULT 'idempotent',
    may_have_executed integer NOT NULL DEFAULT 1,
    breaker text,
    code_version text NOT NULL DEFAULT '',
    priority integer NOT NULL DEFAULT 0,
    assignee text,
    template text,
    runbook text,
    redrive text NOT NULL DEFAULT 'never',
    redrive_policy text,
    redrives integer NOT NULL DEFAULT 0,
    max_redrives integer NOT NULL DEFAULT 0,
    next_redrive_at double precision,
    exhausted_at double precision,
    settings text NOT NULL DEFAULT ''
);

-- A step has one live letter and any number of closed ones. The same index finds the letters of a run.
CREATE UNIQUE INDEX dead_letters_of_run ON redrive.dead_letters
    (run_id, step_index, (CASE WHEN state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') THEN '' ELSE id END));

-- Lists scan these in order. The first one also has the columns that people filter by most.
CREATE INDEX dead_letters_by_state ON redrive.dead_letters
    (org, state, created_at, id, category, workflow, step, queue);
CREATE INDEX dead_letters_by_time ON redrive.dead_letters (org, created_at, id);
CREATE INDEX dead_letters_by_failure ON redrive.dead_letters (org, fingerprint, state, created_at, id);

-- Few dead letters are in each of these indexes. The other files have one more, for those with a correlation id.
CREATE INDEX dead_letters_assigned ON redrive.dead_letters (org, assignee, created_at, id) WHERE assignee IS NOT NULL;
CREATE INDEX dead_letters_due ON redrive.dead_letters (next_redrive_at)
    WHERE state = 'OPEN' AND next_redrive_at IS NOT NULL;
CREATE INDEX dead_letters_left ON redrive.dead_letters (org, fingerprint)
    WHERE state = 'OPEN' AND redrive <> 'never' AND next_redrive_at IS NULL;
CREATE INDEX dead_letters_exhausted ON redrive.dead_letters (exhausted_at) WHERE state = 'EXHAUSTED';
CREATE INDEX dead_letters_closed ON redrive.dead_letters (updated_at)
    WHERE state IN ('RESOLVED', 'IGNORED', 'ARCHIVED');

-- Configuration and retry policy of failed steps, redacted. Many letters share one.
CREATE TABLE redrive.dead_letter_settings (
    org text NOT NULL,
    digest text NOT NULL,
    config text NOT NULL,
    policy text NOT NULL,
    PRIMARY KEY (org, digest)
);

-- What people wrote about a letter.
CREATE TABLE redrive.dead_letter_notes (
    id text PRIMARY KEY,
    org text NOT NULL,
    letter_id text NOT NULL,
    at double precision NOT NULL,
    author text NOT NULL,
    body text NOT NULL
);
CREATE INDEX dead_letter_notes_of_letter ON redrive.dead_letter_notes (letter_id, at, id);

-- Which letters must be resolved before which others.
CREATE TABLE redrive.dead_letter_dependencies (
    letter_id text NOT NULL,
    depends_on text NOT NULL,
    org text NOT NULL,
    PRIMARY KEY (letter_id, depends_on)
);
CREATE INDEX dead_letter_dependencies_on ON redrive.dead_letter_dependencies (depends_on);

-- Failure groups

-- Failures with the same fingerprint, and what people decided about them.
CREATE TABLE redrive.failure_groups (
    org text NOT NULL,
    fingerprint text NOT NULL,
    title text NOT NULL,
    reason text NOT NULL,
    workflow text NOT NULL,
    step text NOT NULL,
    task text NOT NULL,
    category text NOT NULL,
    error_type text NOT NULL,
    sample text NOT NULL,
    state text NOT NULL,
    occurrences bigint NOT NULL,
    first_seen double precision NOT NULL,
    last_seen double precision NOT NULL,
    regressed_at double precision,
    ignored_until double precision,
    ignored_beyond bigint,
    ignored_version text,
    changed_by text,
    changed_at double precision,
    change_reason text,
    PRIMARY KEY (org, fingerprint)
) /* postgres: WITH (fillfactor = 70) */;
CREATE INDEX failure_groups_by_time ON redrive.failure_groups (org, last_seen, fingerprint);
CREATE INDEX failure_groups_by_state ON redrive.failure_groups (org, state, last_seen, fingerprint);
CREATE INDEX failure_groups_ignored ON redrive.failure_groups (ignored_until)
    WHERE state = 'IGNORED' AND ignored_until IS NOT NULL;

-- The code versions in which a group occurred.
CREATE TABLE redrive.failure_group_versions (
    org text NOT NULL,
    fingerprint text NOT NULL,
    code_version text NOT NULL,
    occurrences bigint NOT NULL,
    first_seen double precision NOT NULL,
    last_seen double precision NOT NULL,
    PRIMARY KEY (org, fingerprint, code_version)
);

-- Replays

-- Bulk replays, each with its plan and its progress.
CREATE TABLE redrive.replay_operations (
    id text PRIMARY KEY,
    org text NOT NULL,
    state text NOT NULL,
    mode text NOT NULL,
    selection text NOT NULL,
    options text NOT NULL,
    policy_override text,
    reason text NOT NULL,
    plan text NOT NULL,
    planned_by text NOT NULL,
    planned_at double precision NOT NULL,
    started_by text,
    started_at double precision,
    released integer NOT NULL,
    released_at double precision,
    ramped_at double precision,
    ended_at double precision,
    stopped_because text,
    updated_at double precision NOT NULL
);
CREATE INDEX replay_operations_running ON redrive.replay_operations (updated_at) WHERE state = 'RUNNING';
CREATE INDEX replay_operations_by_time ON redrive.replay_operations (org, planned_at, id);

-- Replays of one letter each, alone or as part of a bulk replay.
CREATE TABLE redrive.replays (
    id text PRIMARY KEY,
    org text NOT NULL,
    operation_id text,
    position integer NOT NULL,
    letter_id text NOT NULL,
    run_id uuid NOT NULL,
    number integer,
    step_index integer NOT NULL,
    from_step integer NOT NULL,
    mode text NOT NULL,
    state text NOT NULL,
    automatic integer NOT NULL,
    requested_by text NOT NULL,
    requested_at double precision NOT NULL,
    reason text NOT NULL,
    policy_override text,
    edit text,
    fingerprint text NOT NULL,
    letter_updated_at double precision NOT NULL,
    effect text NOT NULL,
    breaker text,
    started_at double precision,
    ended_at double precision,
    fingerprint_after text,
    note text
);
CREATE INDEX replays_of_operation ON redrive.replays (operation_id, state, position) WHERE operation_id IS NOT NULL;
CREATE INDEX replays_of_run ON redrive.replays (run_id);
CREATE INDEX replays_of_failure ON redrive.replays (org, fingerprint, state);

-- Audit

-- The end of each organization's hash chain.
CREATE TABLE redrive.audit_heads (
    org text PRIMARY KEY,
    sequence bigint NOT NULL,
    hash text NOT NULL
);

-- Who did what. Each entry has the hash of the one before it.
CREATE TABLE redrive.audit (
    org text NOT NULL,
    sequence bigint NOT NULL,
    at double precision NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    subjects text,
    detail text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (org, sequence)
);
CREATE INDEX audit_by_time ON redrive.audit (org, at, sequence);
CREATE INDEX audit_by_subject ON redrive.audit (org, subject, sequence);

-- Changes by people are rare. These indexes leave out the frequent entries of the engine.
CREATE INDEX audit_by_action ON redrive.audit (org, action, sequence) WHERE action <> 'dead_letter.moved';
CREATE INDEX audit_by_actor ON redrive.audit (org, actor, sequence) WHERE actor <> 'redrive';

-- Identity

-- Organizations. The first one is created with the tables.
CREATE TABLE redrive.organizations (
    name text PRIMARY KEY,
    title text NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL
);
INSERT INTO redrive.organizations (name, title, created_at, created_by)
SELECT 'default', '', min(applied_at), 'redrive' FROM redrive.migrations;

-- People who sign in by a password or through an identity provider.
CREATE TABLE redrive.users (
    id text PRIMARY KEY,
    name text NOT NULL,
    org text NOT NULL,
    password text,
    password_number integer NOT NULL DEFAULT 0,
    issuer text,
    subject text,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    disabled_at double precision
);
CREATE UNIQUE INDEX users_by_name ON redrive.users (name);
CREATE UNIQUE INDEX users_by_identity ON redrive.users (issuer, subject) WHERE issuer IS NOT NULL;

-- The role of each user in each organization.
CREATE TABLE redrive.memberships (
    org text NOT NULL,
    user_id text NOT NULL,
    role text NOT NULL,
    active integer NOT NULL,
    version integer NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (org, user_id)
);
CREATE INDEX memberships_of_user ON redrive.memberships (user_id, org);

-- API keys, as hashes.
CREATE TABLE redrive.api_keys (
    id text PRIMARY KEY,
    org text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    scopes text,
    hash text NOT NULL,
    previous_hash text,
    previous_expires_at double precision,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    expires_at double precision,
    last_used_at double precision,
    rotated_at double precision,
    revoked_at double precision,
    revoked_by text
);
CREATE INDEX api_keys_of_org ON redrive.api_keys (org, id);
CREATE UNIQUE INDEX api_keys_by_name ON redrive.api_keys (org, name) WHERE revoked_at IS NULL;

-- Sessions of signed-in users, as hashes.
CREATE TABLE redrive.sessions (
    hash text PRIMARY KEY,
    id text NOT NULL,
    user_id text NOT NULL,
    org text NOT NULL,
    kind text NOT NULL,
    created_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    expires_at double precision NOT NULL
);
CREATE INDEX sessions_of_user ON redrive.sessions (user_id, id);
CREATE INDEX sessions_by_expiry ON redrive.sessions (expires_at);

-- Tokens that work once, such as those of sign-in links, as hashes.
CREATE TABLE redrive.one_time_tokens (
    hash text PRIMARY KEY,
    kind text NOT NULL,
    user_id text,
    body text NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    expires_at double precision NOT NULL
);
CREATE INDEX one_time_tokens_of_user ON redrive.one_time_tokens (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX one_time_tokens_by_expiry ON redrive.one_time_tokens (expires_at);

-- Requests and saved views

-- Requests with an idempotency key, and their answers until they expire.
CREATE TABLE redrive.idempotency_keys (
    org text NOT NULL,
    domain text NOT NULL,
    user_id text NOT NULL,
    key text NOT NULL,
    status text NOT NULL,
    request_hash text NOT NULL,
    response text,
    error text,
    token bigint NOT NULL,
    lease_expires_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (org, domain, user_id, key)
);
CREATE INDEX idempotency_keys_expiry ON redrive.idempotency_keys (expires_at);

-- Queries that people saved under a name.
CREATE TABLE redrive.saved_views (
    id text PRIMARY KEY,
    org text NOT NULL,
    name text NOT NULL,
    page text NOT NULL,
    query text NOT NULL,
    view text NOT NULL,
    sort text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    UNIQUE (org, page, name)
);
