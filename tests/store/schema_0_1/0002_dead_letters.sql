ALTER TABLE redrive.runs ADD COLUMN replays integer NOT NULL DEFAULT 0;
ALTER TABLE redrive.runs ADD COLUMN step_only integer NOT NULL DEFAULT 0;
ALTER TABLE redrive.runs ADD COLUMN redrives integer NOT NULL DEFAULT 0;
ALTER TABLE redrive.runs ADD COLUMN has_letter integer NOT NULL DEFAULT 0;

ALTER TABLE redrive.attempts ADD COLUMN output text;
ALTER TABLE redrive.attempts ADD COLUMN replay integer NOT NULL DEFAULT 0;

ALTER TABLE redrive.dead_letters ADD COLUMN effect text NOT NULL DEFAULT 'idempotent';
ALTER TABLE redrive.dead_letters ADD COLUMN may_have_executed integer NOT NULL DEFAULT 1;
ALTER TABLE redrive.dead_letters ADD COLUMN breaker text;
ALTER TABLE redrive.dead_letters ADD COLUMN code_version text NOT NULL DEFAULT '';
ALTER TABLE redrive.dead_letters ADD COLUMN priority integer NOT NULL DEFAULT 0;
ALTER TABLE redrive.dead_letters ADD COLUMN assignee text;
ALTER TABLE redrive.dead_letters ADD COLUMN template text;
ALTER TABLE redrive.dead_letters ADD COLUMN runbook text;
ALTER TABLE redrive.dead_letters ADD COLUMN redrive text NOT NULL DEFAULT 'never';
ALTER TABLE redrive.dead_letters ADD COLUMN redrive_policy text;
ALTER TABLE redrive.dead_letters ADD COLUMN redrives integer NOT NULL DEFAULT 0;
ALTER TABLE redrive.dead_letters ADD COLUMN max_redrives integer NOT NULL DEFAULT 0;
ALTER TABLE redrive.dead_letters ADD COLUMN next_redrive_at double precision;
ALTER TABLE redrive.dead_letters ADD COLUMN exhausted_at double precision;

DROP INDEX redrive.dead_letters_by_state;
CREATE INDEX dead_letters_by_state ON redrive.dead_letters (org, state, created_at, id);
CREATE INDEX dead_letters_by_time ON redrive.dead_letters (org, created_at, id);
CREATE INDEX dead_letters_by_failure ON redrive.dead_letters (org, fingerprint, state, created_at, id);
CREATE INDEX dead_letters_by_category ON redrive.dead_letters (org, category, state, created_at, id);
CREATE INDEX dead_letters_by_workflow ON redrive.dead_letters (org, workflow, state, created_at, id);
CREATE INDEX dead_letters_by_step ON redrive.dead_letters (org, step, state, created_at, id);
CREATE INDEX dead_letters_by_queue ON redrive.dead_letters (org, queue, state, created_at, id);
CREATE INDEX dead_letters_by_correlation ON redrive.dead_letters (correlation_id);
CREATE INDEX dead_letters_assigned ON redrive.dead_letters (org, assignee, created_at, id) WHERE assignee IS NOT NULL;
CREATE INDEX dead_letters_due ON redrive.dead_letters (next_redrive_at)
    WHERE state = 'OPEN' AND next_redrive_at IS NOT NULL;
CREATE INDEX dead_letters_exhausted ON redrive.dead_letters (exhausted_at) WHERE state = 'EXHAUSTED';

CREATE TABLE redrive.dead_letter_notes (
    id text PRIMARY KEY,
    org text NOT NULL,
    letter_id text NOT NULL,
    at double precision NOT NULL,
    author text NOT NULL,
    body text NOT NULL
);
CREATE INDEX dead_letter_notes_of_letter ON redrive.dead_letter_notes (letter_id, at, id);

CREATE TABLE redrive.dead_letter_dependencies (
    letter_id text NOT NULL,
    depends_on text NOT NULL,
    org text NOT NULL,
    PRIMARY KEY (letter_id, depends_on)
);
CREATE INDEX dead_letter_dependencies_on ON redrive.dead_letter_dependencies (depends_on);

CREATE TABLE redrive.dead_letter_counts (
    org text NOT NULL,
    fingerprint text NOT NULL,
    queue text NOT NULL,
    category text NOT NULL,
    redrive text NOT NULL,
    state text NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (org, fingerprint, queue, category, redrive, state)
);

CREATE TABLE redrive.dead_letter_figures (
    org text NOT NULL,
    queue text NOT NULL,
    figure text NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (org, queue, figure)
);

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

CREATE TABLE redrive.failure_group_versions (
    org text NOT NULL,
    fingerprint text NOT NULL,
    code_version text NOT NULL,
    occurrences bigint NOT NULL,
    first_seen double precision NOT NULL,
    last_seen double precision NOT NULL,
    PRIMARY KEY (org, fingerprint, code_version)
);

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

CREATE TABLE redrive.replays (
    id text PRIMARY KEY,
    org text NOT NULL,
    operation_id text,
    position integer NOT NULL,
    letter_id text NOT NULL,
    run_id text NOT NULL,
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
CREATE INDEX replays_of_letter ON redrive.replays (letter_id, requested_at);
CREATE INDEX replays_of_run ON redrive.replays (run_id, number);
CREATE INDEX replays_running ON redrive.replays (run_id) WHERE state = 'RUNNING';
CREATE INDEX replays_of_failure ON redrive.replays (org, fingerprint, state);

CREATE TABLE redrive.audit_heads (
    org text PRIMARY KEY,
    sequence bigint NOT NULL,
    hash text NOT NULL
);

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

CREATE TABLE redrive.processors (
    id text PRIMARY KEY,
    queue text NOT NULL,
    state text NOT NULL,
    interval_seconds double precision NOT NULL,
    started_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    redriven bigint NOT NULL
);

INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
SELECT org, fingerprint, queue, category, redrive, state, count(*) FROM redrive.dead_letters
GROUP BY org, fingerprint, queue, category, redrive, state;

INSERT INTO redrive.dead_letter_figures (org, queue, figure, number)
SELECT org, queue, 'enqueued_total', count(*) FROM redrive.dead_letters GROUP BY org, queue;

INSERT INTO redrive.failure_groups (org, fingerprint, title, reason, workflow, step, task, category, error_type, sample,
    state, occurrences, first_seen, last_seen)
SELECT org, fingerprint, max(title), max(fingerprint_reason), max(workflow), max(step), max(task), max(category),
    max(error_type), max(id), 'OPEN', count(*), min(created_at), max(updated_at)
FROM redrive.dead_letters GROUP BY org, fingerprint;
