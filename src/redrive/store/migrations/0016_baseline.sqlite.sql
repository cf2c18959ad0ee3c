-- What only SQLite has: the one table of runs, and counters that triggers update in place.

-- Runs, each with the state of its current step. `place` says where its work is. `sort_key` is the order of ready work:
-- one point of priority is worth an hour of waiting.
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
CREATE UNIQUE INDEX runs_idempotency ON runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- One index for each place. A claim reads the first rows of the first one, however much work is elsewhere.
CREATE INDEX runs_ready ON runs (queue, sort_key, id) WHERE place = 'ready';
CREATE INDEX runs_waiting ON runs (due_at, queue) WHERE place = 'waiting';
CREATE INDEX runs_held ON runs (held_by, sort_key, id, queue) WHERE place = 'held';
CREATE INDEX runs_alone ON runs (queue, submitted_at) WHERE place = 'alone';
CREATE INDEX runs_leased ON runs (leased_until) WHERE place = 'leased';
CREATE INDEX runs_cancelling ON runs (worker) WHERE place = 'leased' AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE place = 'ended' AND state IN ('SUCCESS', 'CANCELLED');

-- For lists of runs. No run is in both of the first two, and a run in progress is in neither.
CREATE INDEX runs_idle ON runs (org, queue, place, state, workflow, submitted_at, id, held_by, step_state)
    WHERE place <> 'ended' AND place <> 'leased';
CREATE INDEX runs_over ON runs (org, workflow, queue, state, submitted_at, id) WHERE place = 'ended';
CREATE INDEX runs_correlated ON runs (org, correlation_id, submitted_at, id) WHERE given_correlation_id IS NOT NULL;

-- Dead letters

-- A run without a correlation id uses its id: its dead letters are found by their run.
CREATE INDEX dead_letters_correlated ON dead_letters (correlation_id) WHERE correlation_id <> run_id;

-- Counters of dead letters

-- The number of dead letters in each state. Triggers update it.
CREATE TABLE dead_letter_counts (
    org text NOT NULL,
    fingerprint text NOT NULL,
    queue text NOT NULL,
    category text NOT NULL,
    redrive text NOT NULL,
    state text NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (org, fingerprint, queue, category, redrive, state)
);
-- Rows with the number 0 are left out, so that the index changes only with the first and the last dead letter.
CREATE INDEX dead_letter_counts_by_state ON dead_letter_counts (org, state, fingerprint) WHERE number > 0;

-- The number of events of dead letters since the database was created.
CREATE TABLE dead_letter_figures (
    org text NOT NULL,
    queue text NOT NULL,
    figure text NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (org, queue, figure)
);

-- Events per period. A bucket is 300 seconds long and named by its first second; occurrences of a group have buckets of an
-- hour. The current numbers are in bucket 0.
CREATE TABLE tallies (
    org text NOT NULL,
    figure text NOT NULL,
    subject text NOT NULL,
    bucket bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (org, figure, subject, bucket)
);
CREATE INDEX tallies_by_time ON tallies (bucket);

CREATE TRIGGER dead_letters_inserted AFTER INSERT ON dead_letters
BEGIN
    INSERT INTO dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    VALUES (NEW.org, NEW.fingerprint, NEW.queue, NEW.category, NEW.redrive, NEW.state, 1)
    ON CONFLICT (org, fingerprint, queue, category, redrive, state) DO UPDATE SET number = number + 1
    ; INSERT INTO dead_letter_figures (org, queue, figure, number) VALUES (NEW.org, NEW.queue, 'enqueued_total', 1)
    ON CONFLICT (org, queue, figure) DO UPDATE SET number = number + 1
    ; END;

CREATE TRIGGER dead_letters_deleted AFTER DELETE ON dead_letters
BEGIN
    UPDATE dead_letter_counts SET number = number - 1
    WHERE org = OLD.org AND fingerprint = OLD.fingerprint AND queue = OLD.queue AND category = OLD.category
        AND redrive = OLD.redrive AND state = OLD.state
    ; END;

CREATE TRIGGER dead_letters_moved AFTER UPDATE ON dead_letters
WHEN OLD.state <> NEW.state OR OLD.org <> NEW.org OR OLD.fingerprint <> NEW.fingerprint OR OLD.category <> NEW.category
    OR OLD.redrive <> NEW.redrive OR OLD.queue <> NEW.queue
BEGIN
    UPDATE dead_letter_counts SET number = number - 1
    WHERE org = OLD.org AND fingerprint = OLD.fingerprint AND queue = OLD.queue AND category = OLD.category
        AND redrive = OLD.redrive AND state = OLD.state
    ; INSERT INTO dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    VALUES (NEW.org, NEW.fingerprint, NEW.queue, NEW.category, NEW.redrive, NEW.state, 1)
    ON CONFLICT (org, fingerprint, queue, category, redrive, state) DO UPDATE SET number = number + 1
    ; INSERT INTO dead_letter_figures (org, queue, figure, number)
    SELECT NEW.org, NEW.queue, figure, 1 FROM (
        SELECT 'retry_success' AS figure WHERE OLD.state = 'REPLAYING' AND NEW.state = 'RESOLVED'
        UNION ALL SELECT 'retry_failed' WHERE OLD.state = 'REPLAYING' AND NEW.state IN ('OPEN', 'EXHAUSTED')
        UNION ALL SELECT 'exhausted' WHERE OLD.state <> 'EXHAUSTED' AND NEW.state = 'EXHAUSTED'
        UNION ALL SELECT 'archived' WHERE OLD.state <> 'ARCHIVED' AND NEW.state = 'ARCHIVED'
        UNION ALL SELECT 'manually_retried'
            WHERE OLD.state <> 'REPLAYING' AND NEW.state = 'REPLAYING' AND NEW.redrives = OLD.redrives
    ) WHERE true
    ON CONFLICT (org, queue, figure) DO UPDATE SET number = number + 1
    ; END;

CREATE TRIGGER dead_letters_came AFTER INSERT ON dead_letters WHEN NEW.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
BEGIN
    INSERT INTO tallies (org, figure, subject, bucket, number)
    VALUES (NEW.org, 'came', '', CAST(NEW.created_at AS integer) / 300 * 300, 1),
        (NEW.org, 'occurred', NEW.fingerprint, CAST(NEW.created_at AS integer) / 3600 * 3600, 1),
        (NEW.org, 'standing',
            CASE WHEN NEW.state = 'OPEN' AND NEW.next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE NEW.state END, 0, 1)
    ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = number + 1
    ; END;

CREATE TRIGGER dead_letters_gone AFTER DELETE ON dead_letters WHEN OLD.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
BEGIN
    UPDATE tallies SET number = number - 1
    WHERE org = OLD.org AND figure = 'standing' AND bucket = 0 AND subject =
        CASE WHEN OLD.state = 'OPEN' AND OLD.next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE OLD.state END
    ; END;

CREATE TRIGGER dead_letters_changed AFTER UPDATE ON dead_letters
WHEN OLD.state <> NEW.state OR (OLD.next_redrive_at IS NULL) <> (NEW.next_redrive_at IS NULL) OR OLD.org <> NEW.org
BEGIN
    INSERT INTO tallies (org, figure, subject, bucket, number)
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        change
    FROM (
        SELECT OLD.org AS org, OLD.state AS state, OLD.next_redrive_at AS next_redrive_at, -1 AS change
        UNION ALL SELECT NEW.org, NEW.state, NEW.next_redrive_at, 1
    ) WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
    ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = number + excluded.number
    ; INSERT INTO tallies (org, figure, subject, bucket, number)
    SELECT NEW.org, figure, '', CAST(NEW.updated_at AS integer) / 300 * 300, 1 FROM (
        SELECT 'came' AS figure WHERE OLD.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
            AND NEW.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
        UNION ALL SELECT 'left' WHERE OLD.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
            AND NEW.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
        UNION ALL SELECT CASE WHEN NEW.resolution = 'replayed' THEN 'replayed' ELSE 'replay_failed' END
            WHERE OLD.state = 'REPLAYING' AND NEW.state IN ('RESOLVED', 'OPEN', 'EXHAUSTED')
    ) WHERE true
    ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = number + 1
    ; END;
