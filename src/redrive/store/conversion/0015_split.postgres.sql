-- The row of a run is split (decision 22). What a run was given is written once. Its work is a narrow row that moves:
-- from ready or idle into leases and, at the end, into ended. A claim deletes from ready, so that nothing but ready work
-- is ever in the way of a claim, and no row with a payload is written twice. The next step makes the view runs of them.

CREATE TABLE redrive.run_inputs (
    id uuid PRIMARY KEY,
    org text COLLATE "C" NOT NULL,
    definition text NOT NULL,
    input text NOT NULL,
    idempotency_key text COLLATE "C",
    request_hash text,
    correlation_id text COLLATE "C",
    tags text,
    metadata text
);

CREATE TABLE redrive.ready (
    submitted_at double precision NOT NULL,
    sort_key double precision NOT NULL,
    attempt_started_at double precision,
    started_at double precision,
    cancel_requested_at double precision,
    previous_delay double precision,
    first_failed_at double precision,
    last_failed_at double precision,
    token bigint,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    step_index integer NOT NULL,
    priority integer NOT NULL,
    failures integer NOT NULL,
    rate_limit_waits integer NOT NULL,
    holds integer NOT NULL,
    losses integer NOT NULL,
    isolated_crashes integer NOT NULL,
    isolation integer NOT NULL,
    replays integer NOT NULL,
    redrives integer NOT NULL,
    step_only integer NOT NULL,
    has_letter integer NOT NULL,
    id uuid NOT NULL,
    org text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    step_state text COLLATE "C" NOT NULL,
    step_input text,
    error_class text,
    worker text,
    code_version text,
    policy_override text,
    progress text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE redrive.idle (
    submitted_at double precision NOT NULL,
    sort_key double precision NOT NULL,
    attempt_started_at double precision,
    started_at double precision,
    cancel_requested_at double precision,
    previous_delay double precision,
    first_failed_at double precision,
    last_failed_at double precision,
    token bigint,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    step_index integer NOT NULL,
    priority integer NOT NULL,
    failures integer NOT NULL,
    rate_limit_waits integer NOT NULL,
    holds integer NOT NULL,
    losses integer NOT NULL,
    isolated_crashes integer NOT NULL,
    isolation integer NOT NULL,
    replays integer NOT NULL,
    redrives integer NOT NULL,
    step_only integer NOT NULL,
    has_letter integer NOT NULL,
    id uuid NOT NULL,
    org text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    step_state text COLLATE "C" NOT NULL,
    step_input text,
    error_class text,
    worker text,
    code_version text,
    policy_override text,
    progress text,
    due_at double precision,
    held_by text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE redrive.leases (
    submitted_at double precision NOT NULL,
    sort_key double precision NOT NULL,
    attempt_started_at double precision,
    started_at double precision,
    cancel_requested_at double precision,
    previous_delay double precision,
    first_failed_at double precision,
    last_failed_at double precision,
    token bigint,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    step_index integer NOT NULL,
    priority integer NOT NULL,
    failures integer NOT NULL,
    rate_limit_waits integer NOT NULL,
    holds integer NOT NULL,
    losses integer NOT NULL,
    isolated_crashes integer NOT NULL,
    isolation integer NOT NULL,
    replays integer NOT NULL,
    redrives integer NOT NULL,
    step_only integer NOT NULL,
    has_letter integer NOT NULL,
    id uuid NOT NULL,
    org text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    step_input text,
    error_class text,
    worker text,
    code_version text,
    policy_override text,
    progress text,
    lease_expires_at double precision NOT NULL,
    slots text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, fillfactor = 70);

-- Most runs that have ended have never failed: what tells of failures is empty then.
CREATE TABLE redrive.ended (
    submitted_at double precision NOT NULL,
    ended_at double precision NOT NULL,
    attempt_started_at double precision,
    started_at double precision,
    cancel_requested_at double precision,
    previous_delay double precision,
    first_failed_at double precision,
    last_failed_at double precision,
    token bigint,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    step_index integer NOT NULL,
    priority integer NOT NULL,
    failures integer,
    rate_limit_waits integer,
    holds integer,
    losses integer,
    isolated_crashes integer,
    isolation integer,
    replays integer,
    redrives integer,
    step_only integer,
    has_letter integer,
    id uuid NOT NULL,
    org text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    step_state text COLLATE "C" NOT NULL,
    step_input text,
    error_class text,
    worker text,
    code_version text,
    policy_override text,
    progress text,
    result text
) WITH (autovacuum_vacuum_cost_delay = 0);

INSERT INTO redrive.run_inputs (id, org, definition, input, idempotency_key, request_hash, correlation_id, tags, metadata)
SELECT CAST(id AS uuid), org, definition, input, idempotency_key, request_hash, NULLIF(correlation_id, id), tags, metadata
FROM redrive.runs;
INSERT INTO redrive.ready (submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, place, state,
    step_state, step_input, error_class, worker, code_version, policy_override, progress)
SELECT submitted_at, submitted_at - 3600 * priority, attempt_started_at, started_at, cancel_requested_at, previous_delay,
    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, CAST(id AS uuid), org, workflow, queue, place, state,
    step_state, step_input, error_class, worker, code_version, policy_override, progress
FROM redrive.runs WHERE place = 'ready';
INSERT INTO redrive.idle (submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, place, state,
    step_state, step_input, error_class, worker, code_version, policy_override, progress, due_at, held_by)
SELECT submitted_at, submitted_at - 3600 * priority, attempt_started_at, started_at, cancel_requested_at, previous_delay,
    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, CAST(id AS uuid), org, workflow, queue, place, state,
    step_state, step_input, error_class, worker, code_version, policy_override, progress, due_at, held_by
FROM redrive.runs WHERE place IN ('waiting', 'held', 'alone');
INSERT INTO redrive.leases (submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, step_input,
    error_class, worker, code_version, policy_override, progress, lease_expires_at, slots)
SELECT submitted_at, submitted_at - 3600 * priority, attempt_started_at, started_at, cancel_requested_at, previous_delay,
    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, CAST(id AS uuid), org, workflow, queue, step_input,
    error_class, worker, code_version, policy_override, progress, lease_expires_at, slots
FROM redrive.runs WHERE place = 'leased';
INSERT INTO redrive.ended (submitted_at, ended_at, attempt_started_at, started_at, cancel_requested_at, previous_delay,
    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, state, step_state,
    step_input, error_class, worker, code_version, policy_override, progress, result)
SELECT submitted_at, ended_at, attempt_started_at, started_at, cancel_requested_at, previous_delay, first_failed_at,
    last_failed_at, token, epoch, attempt, step_index, priority, NULLIF(failures, 0), NULLIF(rate_limit_waits, 0),
    NULLIF(holds, 0), NULLIF(losses, 0), NULLIF(isolated_crashes, 0), NULLIF(isolation, 0), NULLIF(replays, 0),
    NULLIF(redrives, 0), NULLIF(step_only, 0), NULLIF(has_letter, 0), CAST(id AS uuid), org, workflow, queue, state, step_state,
    step_input, error_class, worker, code_version, policy_override, progress, result
FROM redrive.runs WHERE place = 'ended';

CREATE UNIQUE INDEX run_inputs_idempotency ON redrive.run_inputs (org, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX run_inputs_correlated ON redrive.run_inputs (org, correlation_id, id) WHERE correlation_id IS NOT NULL;

-- The constraints also tell PostgreSQL which of the tables a condition on the place leaves out.
ALTER TABLE redrive.ready ADD PRIMARY KEY (id), ADD CONSTRAINT ready_place CHECK (place = 'ready');
CREATE INDEX ready_order ON redrive.ready (queue, sort_key, id);
CREATE INDEX ready_lists ON redrive.ready (org, queue, place, state, workflow, submitted_at, id);

ALTER TABLE redrive.idle ADD PRIMARY KEY (id),
    ADD CONSTRAINT idle_place CHECK (place IN ('waiting', 'held', 'alone'));
CREATE INDEX idle_waiting ON redrive.idle (due_at, queue) WHERE place = 'waiting';
CREATE INDEX idle_held ON redrive.idle (held_by, sort_key, id, queue) WHERE place = 'held';
CREATE INDEX idle_alone ON redrive.idle (queue, submitted_at) WHERE place = 'alone';
CREATE INDEX idle_lists ON redrive.idle (org, queue, place, state, workflow, submitted_at, id);

ALTER TABLE redrive.leases ADD PRIMARY KEY (id);
CREATE INDEX leases_expiry ON redrive.leases (lease_expires_at);
CREATE INDEX leases_cancelling ON redrive.leases (worker) WHERE cancel_requested_at IS NOT NULL;

ALTER TABLE redrive.ended ADD PRIMARY KEY (id);
CREATE INDEX ended_lists ON redrive.ended (org, workflow, queue, state, submitted_at, id);
CREATE INDEX ended_removable ON redrive.ended USING brin (ended_at) WITH (pages_per_range = 32);

DROP TABLE redrive.runs CASCADE;

DROP INDEX redrive.dead_letters_correlated;
ALTER TABLE redrive.steps ALTER COLUMN run_id TYPE uuid USING CAST(run_id AS uuid);
ALTER TABLE redrive.attempts ALTER COLUMN run_id TYPE uuid USING CAST(run_id AS uuid);
ALTER TABLE redrive.run_events ALTER COLUMN run_id TYPE uuid USING CAST(run_id AS uuid);
ALTER TABLE redrive.replays ALTER COLUMN run_id TYPE uuid USING CAST(run_id AS uuid);
ALTER TABLE redrive.dead_letters ALTER COLUMN run_id TYPE uuid USING CAST(run_id AS uuid);
CREATE INDEX dead_letters_correlated ON redrive.dead_letters (correlation_id)
    WHERE correlation_id <> encode(uuid_send(run_id), 'hex');

ALTER TABLE redrive.run_inputs ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.run_inputs USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.ready ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.ready USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.idle ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.idle USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.leases ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.leases USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.ended ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.ended USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

CREATE POLICY tenant ON redrive.steps USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.run_inputs AS run
    WHERE run.id = steps.run_id AND run.org = current_setting('redrive_tenant.org', true)));
CREATE POLICY tenant ON redrive.attempts USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.run_inputs AS run
    WHERE run.id = attempts.run_id AND run.org = current_setting('redrive_tenant.org', true)));
CREATE POLICY tenant ON redrive.run_events USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.run_inputs AS run
    WHERE run.id = run_events.run_id AND run.org = current_setting('redrive_tenant.org', true)));
