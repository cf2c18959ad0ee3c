-- A run keeps its key when it has left the order.
ALTER TABLE redrive.run_inputs ADD COLUMN order_key text;

-- The last position of each key that is in use. Its row is the lock of the key, which a transaction takes when it commits.
CREATE TABLE redrive.order_keys (
    org text NOT NULL,
    order_key text NOT NULL,
    last_position bigint NOT NULL,
    PRIMARY KEY (org, order_key)
);

-- A row is pending (1) from the start of its run, and after its end, until the transaction commits. Only that transaction sees
-- it pending. One such row of each statement (2) also calls for the order to be settled.
ALTER TABLE redrive.run_order ADD COLUMN pending integer NOT NULL DEFAULT 2;
ALTER TABLE redrive.run_order ADD CONSTRAINT run_order_mark CHECK (substring(uuid_send(run_id) FROM 15) = '\xf1f0');
CREATE INDEX run_order_pending ON redrive.run_order (org, order_key) WHERE pending > 0;

-- Settle the order of every key that the transaction has used, when it commits: all keys at once, locked in the order of their
-- names, so that transactions cannot deadlock. Further calls find nothing pending. Nested loops, because a session keeps its
-- plans, and the tables may have been empty when it made them.
CREATE FUNCTION redrive.settle_run_order() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    orgs text[]
    ; keys text[]
    ; started uuid[]
    ; channel text := 'redrive_' || TG_TABLE_SCHEMA
    ; ready_queue text
    ; BEGIN
    SELECT array_agg(org), array_agg(order_key) INTO orgs, keys
    FROM (SELECT DISTINCT org, order_key FROM redrive.run_order WHERE pending > 0) AS used
    ; IF orgs IS NULL THEN
        RETURN NULL
    ; END IF
    ; SELECT array_agg(run_id) INTO started FROM redrive.run_order WHERE pending > 0 AND position IS NULL
    ; INSERT INTO redrive.order_keys AS key (org, order_key, last_position)
    SELECT org, order_key, count(*) FILTER (WHERE position IS NULL) FROM redrive.run_order WHERE pending > 0
    GROUP BY org, order_key ORDER BY org, order_key
    ON CONFLICT (org, order_key) DO UPDATE SET last_position = key.last_position + excluded.last_position
    ; IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- The snapshot is older than the locks: fail if a run has left the order since.
        PERFORM 1 FROM unnest(orgs, keys) AS used (org, order_key)
        JOIN redrive.run_order AS own ON own.org = used.org AND own.order_key = used.order_key FOR UPDATE OF own
    ; END IF

    -- Runs that have finished leave the order, and new ones get their positions.
    ; DELETE FROM redrive.run_order AS own
    WHERE pending > 0
        AND NOT EXISTS (SELECT 1 FROM redrive.ready WHERE id = own.run_id)
        AND NOT EXISTS (SELECT 1 FROM redrive.idle WHERE id = own.run_id)
        AND NOT EXISTS (SELECT 1 FROM redrive.leases WHERE id = own.run_id)
        AND NOT (after_failure = 'wait' AND EXISTS (
            SELECT 1 FROM redrive.dead_letters AS letter
            WHERE letter.run_id = own.run_id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')))
    ; UPDATE redrive.run_order AS own
    SET pending = 0, position = COALESCE(own.position, key.last_position - numbered.behind)
    FROM (
        SELECT run_id, org, order_key,
            row_number() OVER (PARTITION BY org, order_key, position IS NULL ORDER BY run_id DESC) - 1 AS behind
        FROM redrive.run_order WHERE pending > 0
    ) AS numbered
    JOIN redrive.order_keys AS key ON key.org = numbered.org AND key.order_key = numbered.order_key
    WHERE own.run_id = numbered.run_id
    ; DELETE FROM redrive.order_keys AS key USING unnest(orgs, keys) AS used (org, order_key)
    WHERE key.org = used.org AND key.order_key = used.order_key AND NOT EXISTS (
        SELECT 1 FROM redrive.run_order AS own WHERE own.org = used.org AND own.order_key = used.order_key)

    -- New runs wait for their predecessors. If they have a time, run_order keeps it.
    ; IF started IS NOT NULL THEN
        UPDATE redrive.idle AS work SET due_at = NULL, held_by = 'order:' || own.order_key
        FROM redrive.run_order AS own
        WHERE own.run_id = ANY (started) AND work.id = own.run_id AND work.place = 'waiting' AND EXISTS (
            SELECT 1 FROM redrive.run_order AS earlier
            WHERE earlier.org = own.org AND earlier.order_key = own.order_key AND earlier.position < own.position)
        ; WITH gone AS (
            DELETE FROM redrive.ready AS work USING redrive.run_order AS own
            WHERE own.run_id = ANY (started) AND work.id = own.run_id AND EXISTS (
                SELECT 1 FROM redrive.run_order AS earlier
                WHERE earlier.org = own.org AND earlier.order_key = own.order_key AND earlier.position < own.position)
            RETURNING work.*, own.order_key AS own_key
        )
        INSERT INTO redrive.idle (
            submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay, first_failed_at,
            last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
            isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, step_input,
            error_class, worker, code_version, policy_override, progress, state, step_state,
            place, held_by)
        SELECT submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay, first_failed_at,
            last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
            isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, step_input,
            error_class, worker, code_version, policy_override, progress, state, step_state,
            'waiting', 'order:' || own_key
        FROM gone
    ; END IF

    -- The first run of each key need not wait any longer, except for its time. Workers listen to the channel of this schema.
    ; UPDATE redrive.idle AS work SET due_at = head.due_at, held_by = NULL
    FROM unnest(orgs, keys) AS used (org, order_key) CROSS JOIN LATERAL (
        SELECT run_id, due_at FROM redrive.run_order AS own
        WHERE own.org = used.org AND own.order_key = used.order_key ORDER BY position LIMIT 1
    ) AS head
    WHERE work.id = head.run_id AND work.place = 'waiting' AND work.held_by = 'order:' || used.order_key
        AND head.due_at IS NOT NULL
    ; IF octet_length(channel) > 63 THEN
        channel := 'redrive_' || left(encode(sha256(convert_to(TG_TABLE_SCHEMA, 'UTF8')), 'hex'), 32)
    ; END IF
    ; FOR ready_queue IN
        WITH gone AS (
            DELETE FROM redrive.idle AS work
            USING unnest(orgs, keys) AS used (org, order_key) CROSS JOIN LATERAL (
                SELECT run_id FROM redrive.run_order AS own
                WHERE own.org = used.org AND own.order_key = used.order_key ORDER BY position LIMIT 1
            ) AS head
            WHERE work.id = head.run_id AND work.place = 'waiting' AND work.held_by = 'order:' || used.order_key
            RETURNING work.*
        )
        INSERT INTO redrive.ready (
            submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay, first_failed_at,
            last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
            isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, step_input,
            error_class, worker, code_version, policy_override, progress, state, step_state,
            place)
        SELECT submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay, first_failed_at,
            last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
            isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue, step_input,
            error_class, worker, code_version, policy_override, progress, state, step_state,
            'ready'
        FROM gone
        RETURNING queue
    LOOP
        PERFORM pg_notify(channel, ready_queue)
    ; END LOOP
    ; RETURN NULL
    ; END $$;

CREATE CONSTRAINT TRIGGER run_order_settled AFTER INSERT OR UPDATE ON redrive.run_order
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.pending = 2) EXECUTE FUNCTION redrive.settle_run_order();

-- The end of a run and the end of its dead letter. The id of an ordered run has a mark, so that for other runs only two bytes
-- are compared, also when a worker of the previous version writes.
CREATE FUNCTION redrive.ordered_run_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = 2 WHERE run_id = NEW.id
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER ended_in_order AFTER INSERT ON redrive.ended
FOR EACH ROW WHEN (substring(uuid_send(NEW.id) FROM 15) = '\xf1f0') EXECUTE FUNCTION redrive.ordered_run_ended();

CREATE FUNCTION redrive.ordered_run_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = 2 WHERE run_id = OLD.id
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER removed_in_order AFTER DELETE ON redrive.run_inputs
FOR EACH ROW WHEN (substring(uuid_send(OLD.id) FROM 15) = '\xf1f0') EXECUTE FUNCTION redrive.ordered_run_removed();

CREATE FUNCTION redrive.ordered_letter_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = 2 WHERE run_id = NEW.run_id
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER closed_in_order AFTER UPDATE OF state ON redrive.dead_letters
FOR EACH ROW WHEN (substring(uuid_send(NEW.run_id) FROM 15) = '\xf1f0' AND OLD.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
    AND NEW.state NOT IN ('OPEN', 'REPLAYING', 'EXHAUSTED')) EXECUTE FUNCTION redrive.ordered_letter_closed();

ALTER TABLE redrive.run_order ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.run_order USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.order_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.order_keys USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
