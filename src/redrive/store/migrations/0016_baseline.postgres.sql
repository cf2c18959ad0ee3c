-- What only PostgreSQL has: runs in five tables and a view, counters that are sums of rows, and row-level security.

-- Runs
--
-- A run is two rows (decision 22). Its input is written once. Its work is a narrow row that moves: from ready or idle
-- into leases and, at the end, into ended. Columns are in the order that wastes no space, and have the collation C
-- where the view compares them. The checks also tell PostgreSQL which tables a condition on the place leaves out.

-- The inputs of runs. An empty correlation id means the id of the run.
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
CREATE UNIQUE INDEX run_inputs_idempotency ON redrive.run_inputs (org, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX run_inputs_correlated ON redrive.run_inputs (org, correlation_id, id) WHERE correlation_id IS NOT NULL;

-- Work that a worker may claim now. `sort_key` is its order: one point of priority is worth an hour of waiting.
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
    id uuid PRIMARY KEY,
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
    CONSTRAINT ready_place CHECK (place = 'ready')
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ready_order ON redrive.ready (queue, sort_key, id);
CREATE INDEX ready_lists ON redrive.ready (org, queue, place, state, workflow, submitted_at, id);

-- Work that waits for a time, is held by a breaker or a limit, or must run in isolation.
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
    id uuid PRIMARY KEY,
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
    held_by text COLLATE "C",
    CONSTRAINT idle_place CHECK (place IN ('waiting', 'held', 'alone'))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX idle_waiting ON redrive.idle (due_at, queue) WHERE place = 'waiting';
CREATE INDEX idle_held ON redrive.idle (held_by, sort_key, id, queue) WHERE place = 'held';
CREATE INDEX idle_alone ON redrive.idle (queue, submitted_at) WHERE place = 'alone';
CREATE INDEX idle_lists ON redrive.idle (org, queue, place, state, workflow, submitted_at, id);

-- Work in progress, with its token, its epoch and the end of its lease.
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
    id uuid PRIMARY KEY,
    org text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    step_input text,
    error_class text,
    worker text,
    code_version text,
    policy_override text,
    progress text,
    leased_until double precision NOT NULL,
    slots text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, fillfactor = 70);
CREATE INDEX leases_expiry ON redrive.leases (leased_until);
CREATE INDEX leases_cancelling ON redrive.leases (worker) WHERE cancel_requested_at IS NOT NULL;

-- How runs ended. Most have never failed: their counts are empty, and the view shows 0.
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
    id uuid PRIMARY KEY,
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
CREATE INDEX ended_lists ON redrive.ended (org, workflow, queue, state, submitted_at, id);
CREATE INDEX ended_removable ON redrive.ended USING brin (ended_at) WITH (pages_per_range = 32);

-- Runs as one row, with the columns of the table on SQLite. A view is read with the rights of its owner, to whom row-level
-- security does not apply, so a condition of the view shows a tenant only its runs. All parts have the same types and
-- collations; otherwise PostgreSQL would read all of them before it applies a condition.
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

-- Dead letters

-- A run without a correlation id uses its id: its dead letters are found by their run.
CREATE INDEX dead_letters_correlated ON redrive.dead_letters (correlation_id)
    WHERE correlation_id <> encode(uuid_send(run_id), 'hex');

-- Counters of dead letters
--
-- Triggers insert each change as a row, so that no transaction waits for another one. Workers compact the rows regularly.

-- The number of dead letters in each state.
CREATE TABLE redrive.dead_letter_counts (
    org text NOT NULL,
    fingerprint text NOT NULL,
    queue text NOT NULL,
    category text NOT NULL,
    redrive text NOT NULL,
    state text NOT NULL,
    number bigint NOT NULL
);
-- A covering index for all queries that name the states.
CREATE INDEX dead_letter_counts_by_state ON redrive.dead_letter_counts (org, state, fingerprint) INCLUDE (number);

-- The number of events of dead letters since the database was created.
CREATE TABLE redrive.dead_letter_figures (
    org text NOT NULL,
    queue text NOT NULL,
    figure text NOT NULL,
    number bigint NOT NULL
);

-- Events per period. A bucket is 300 seconds long and named by its first second; occurrences of a group have buckets of an
-- hour. The current numbers are in bucket 0.
CREATE TABLE redrive.tallies (
    org text NOT NULL,
    figure text NOT NULL,
    subject text NOT NULL,
    bucket bigint NOT NULL,
    number bigint NOT NULL
);
CREATE INDEX tallies_by_time ON redrive.tallies (bucket);
CREATE INDEX tallies_of_subject ON redrive.tallies (org, figure, subject, bucket);

CREATE FUNCTION redrive.dead_letters_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    SELECT org, fingerprint, queue, category, redrive, state, count(*) FROM new_rows
    GROUP BY 1, 2, 3, 4, 5, 6
    ; INSERT INTO redrive.dead_letter_figures (org, queue, figure, number)
    SELECT org, queue, 'enqueued_total', count(*) FROM new_rows GROUP BY 1, 2
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_inserted AFTER INSERT ON redrive.dead_letters
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_inserted();

CREATE FUNCTION redrive.dead_letters_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    SELECT org, fingerprint, queue, category, redrive, state, -count(*) FROM old_rows
    GROUP BY 1, 2, 3, 4, 5, 6
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_deleted AFTER DELETE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_deleted();

CREATE FUNCTION redrive.dead_letters_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    SELECT org, fingerprint, queue, category, redrive, state, sum(change) FROM (
        SELECT org, fingerprint, queue, category, redrive, state, -1 AS change FROM old_rows
        UNION ALL SELECT org, fingerprint, queue, category, redrive, state, 1 FROM new_rows
    ) AS changes
    GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(change) <> 0
    ; INSERT INTO redrive.dead_letter_figures (org, queue, figure, number)
    SELECT now.org, now.queue, figure, count(*)
    FROM new_rows AS now JOIN old_rows AS past ON past.id = now.id
    CROSS JOIN (VALUES ('retry_success'), ('retry_failed'), ('exhausted'), ('archived'), ('manually_retried'))
        AS figures (figure)
    WHERE past.state <> now.state AND CASE figure
        WHEN 'retry_success' THEN past.state = 'REPLAYING' AND now.state = 'RESOLVED'
        WHEN 'retry_failed' THEN past.state = 'REPLAYING' AND now.state IN ('OPEN', 'EXHAUSTED')
        WHEN 'exhausted' THEN now.state = 'EXHAUSTED'
        WHEN 'archived' THEN now.state = 'ARCHIVED'
        ELSE now.state = 'REPLAYING' AND now.redrives = past.redrives END
    GROUP BY 1, 2, 3
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_moved AFTER UPDATE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_moved();

CREATE FUNCTION redrive.dead_letters_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
    SELECT org, 'came', '', CAST(floor(created_at / 300) AS bigint) * 300, count(*) FROM new_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 4
    UNION ALL
    SELECT org, 'occurred', fingerprint, CAST(floor(created_at / 3600) AS bigint) * 3600, count(*) FROM new_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3, 4
    UNION ALL
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        count(*) FROM new_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_came AFTER INSERT ON redrive.dead_letters
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_came();

CREATE FUNCTION redrive.dead_letters_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        -count(*) FROM old_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_gone AFTER DELETE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_gone();

CREATE FUNCTION redrive.dead_letters_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        sum(change)
    FROM (
        SELECT org, state, next_redrive_at, -1 AS change FROM old_rows
        UNION ALL SELECT org, state, next_redrive_at, 1 FROM new_rows
    ) AS changes
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3 HAVING sum(change) <> 0
    UNION ALL
    SELECT now.org, figure, '', CAST(floor(now.updated_at / 300) AS bigint) * 300, count(*)
    FROM new_rows AS now JOIN old_rows AS past ON past.id = now.id
    CROSS JOIN (VALUES ('came'), ('left'), ('replayed'), ('replay_failed')) AS figures (figure)
    WHERE past.state <> now.state AND CASE figure
        WHEN 'came' THEN past.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
            AND now.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
        WHEN 'left' THEN past.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
            AND now.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
        ELSE past.state = 'REPLAYING' AND now.state IN ('RESOLVED', 'OPEN', 'EXHAUSTED')
            AND figure = CASE WHEN now.resolution = 'replayed' THEN 'replayed' ELSE 'replay_failed' END END
    GROUP BY 1, 2, 4
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_changed AFTER UPDATE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_changed();

-- Row-level security
--
-- It applies to roles whose name ends in redrive_tenant (see row_level_security.py). The owner of the tables and other users
-- see everything. What a policy shows is also what it allows to be written. Without an organization, it shows nothing.

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

ALTER TABLE redrive.dead_letters ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letters USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_settings ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_settings USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_notes USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_dependencies ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_dependencies USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_counts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_counts USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_figures ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_figures USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.tallies ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.tallies USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.failure_groups ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.failure_groups USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.failure_group_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.failure_group_versions USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.replay_operations ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.replay_operations USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.replays ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.replays USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.audit_heads ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.audit_heads USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.audit ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.audit USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.idempotency_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.idempotency_keys USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.saved_views ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.saved_views USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

-- These belong to the organization of their run. The role is compared first, so that other users need not look up the run.

ALTER TABLE redrive.steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.steps USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.run_inputs AS run
    WHERE run.id = steps.run_id AND run.org = current_setting('redrive_tenant.org', true)));

ALTER TABLE redrive.attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.attempts USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.run_inputs AS run
    WHERE run.id = attempts.run_id AND run.org = current_setting('redrive_tenant.org', true)));

ALTER TABLE redrive.run_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.run_events USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.run_inputs AS run
    WHERE run.id = run_events.run_id AND run.org = current_setting('redrive_tenant.org', true)));

-- All organizations see these, and the home organization changes them.

ALTER TABLE redrive.queues ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON redrive.queues FOR SELECT USING (true);
CREATE POLICY tenant ON redrive.queues USING (
    current_setting('redrive_tenant.org', true) = 'default' OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.breakers ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON redrive.breakers FOR SELECT USING (true);
CREATE POLICY tenant ON redrive.breakers USING (
    current_setting('redrive_tenant.org', true) = 'default' OR right(current_user, 14) <> 'redrive_tenant');
