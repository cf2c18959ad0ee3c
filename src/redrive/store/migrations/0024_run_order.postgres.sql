-- A run keeps its key when it has left the order.
ALTER TABLE redrive.run_inputs ADD COLUMN order_key text;

-- The last position of each key that is in use. Its row is the lock of the key, which a transaction takes when it commits.
CREATE TABLE redrive.order_keys (
    org text NOT NULL,
    order_key text NOT NULL,
    last_position bigint NOT NULL,
    PRIMARY KEY (org, order_key)
);

-- A row is pending from the start of its run, and after its end, until the transaction commits; only that transaction sees it
-- pending. 1: started. 2: started, and calls for the order to be settled, once per statement. 3: the run may have finished,
-- and calls for it.
ALTER TABLE redrive.run_order ADD COLUMN pending integer NOT NULL DEFAULT 2;
ALTER TABLE redrive.run_order ADD CONSTRAINT run_order_mark CHECK (substring(uuid_send(run_id) FROM 15) = '\xf1f0');
CREATE INDEX run_order_pending ON redrive.run_order (run_id) WHERE pending > 0;

-- Settle the order of every key that the transaction has used, when it commits. The first call settles all of them, in the
-- order of their names, so that transactions cannot deadlock; further calls find nothing pending. A session keeps the plans
-- that it made when the tables were empty, so statements find single rows by the only index that fits (|| '' hides others), and
-- join nothing.
CREATE FUNCTION redrive.settle_run_order() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    used record
    ; run uuid
    ; head record
    ; last bigint
    ; holder text
    ; ready_queue text
    ; channel text
    ; BEGIN
    FOR used IN
        SELECT org, order_key, count(*) FILTER (WHERE position IS NULL) AS new_runs,
            COALESCE(array_agg(run_id ORDER BY run_id) FILTER (WHERE pending < 3), '{}') AS started,
            COALESCE(array_agg(run_id ORDER BY run_id) FILTER (WHERE pending = 3), '{}') AS changed
        FROM redrive.run_order WHERE pending > 0 GROUP BY org, order_key ORDER BY org, order_key
    LOOP
        holder := 'order:' || used.order_key
        ; INSERT INTO redrive.order_keys AS key (org, order_key, last_position)
        VALUES (used.org, used.order_key, used.new_runs)
        ON CONFLICT (org, order_key) DO UPDATE SET last_position = key.last_position + excluded.last_position
        RETURNING last_position - used.new_runs INTO last
        ; IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- The snapshot is older than the lock: fail if a run has left the order since.
            PERFORM 1 FROM redrive.run_order WHERE org = used.org AND order_key = used.order_key FOR UPDATE
        ; END IF

        -- New runs get the next positions, and wait for those before them.
        ; FOREACH run IN ARRAY used.started LOOP
            last := last + 1
            ; UPDATE redrive.run_order SET pending = 0, position = last WHERE run_id = run
            ; IF EXISTS (
                SELECT 1 FROM redrive.run_order
                WHERE org = used.org AND order_key = used.order_key AND position < last
            ) THEN
                UPDATE redrive.idle SET due_at = NULL, held_by = holder WHERE id = run AND (place || '') = 'waiting'
                ; WITH gone AS (DELETE FROM redrive.ready WHERE id = run RETURNING *)
                INSERT INTO redrive.idle (
                    submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
                    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures,
                    rate_limit_waits, holds, losses, isolated_crashes, isolation, replays, redrives, step_only, has_letter,
                    id, org, workflow, queue, step_input, error_class, worker, code_version, policy_override, progress,
                    state, step_state,
                    place, held_by)
                SELECT submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
                    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures,
                    rate_limit_waits, holds, losses, isolated_crashes, isolation, replays, redrives, step_only, has_letter,
                    id, org, workflow, queue, step_input, error_class, worker, code_version, policy_override, progress,
                    state, step_state,
                    'waiting', holder
                FROM gone
            ; END IF
        ; END LOOP

        -- Runs that have finished leave the order.
        ; FOREACH run IN ARRAY used.changed LOOP
            last := last + 1
            ; IF EXISTS (SELECT 1 FROM redrive.ready WHERE id = run) OR EXISTS (SELECT 1 FROM redrive.idle WHERE id = run)
                OR EXISTS (SELECT 1 FROM redrive.leases WHERE id = run)
                OR ((SELECT after_failure FROM redrive.run_order WHERE run_id = run) = 'wait' AND EXISTS (
                    SELECT 1 FROM redrive.dead_letters
                    WHERE run_id = run AND (state || '') IN ('OPEN', 'REPLAYING', 'EXHAUSTED')))
            THEN
                UPDATE redrive.run_order SET pending = 0, position = COALESCE(position, last) WHERE run_id = run
            ; ELSE
                DELETE FROM redrive.run_order WHERE run_id = run
            ; END IF
        ; END LOOP

        -- The first run need not wait any longer, except for its time. Workers listen to the channel of this schema.
        ; IF cardinality(used.changed) > 0 THEN
            SELECT run_id, due_at INTO head FROM redrive.run_order
            WHERE org = used.org AND order_key = used.order_key ORDER BY position LIMIT 1
            ; IF NOT FOUND THEN
                DELETE FROM redrive.order_keys WHERE org = used.org AND order_key = used.order_key
            ; ELSIF head.due_at IS NOT NULL THEN
                UPDATE redrive.idle SET due_at = head.due_at, held_by = NULL
                WHERE id = head.run_id AND (place || '') = 'waiting' AND held_by = holder
            ; ELSE
                WITH gone AS (
                    DELETE FROM redrive.idle WHERE id = head.run_id AND (place || '') = 'waiting' AND held_by = holder RETURNING *
                )
                INSERT INTO redrive.ready (
                    submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
                    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures,
                    rate_limit_waits, holds, losses, isolated_crashes, isolation, replays, redrives, step_only, has_letter,
                    id, org, workflow, queue, step_input, error_class, worker, code_version, policy_override, progress,
                    state, step_state,
                    place)
                SELECT submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
                    first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures,
                    rate_limit_waits, holds, losses, isolated_crashes, isolation, replays, redrives, step_only, has_letter,
                    id, org, workflow, queue, step_input, error_class, worker, code_version, policy_override, progress,
                    state, step_state,
                    'ready'
                FROM gone
                RETURNING queue INTO ready_queue
                ; IF FOUND THEN
                    channel := 'redrive_' || TG_TABLE_SCHEMA
                    ; IF octet_length(channel) > 63 THEN
                        channel := 'redrive_' || left(encode(sha256(convert_to(TG_TABLE_SCHEMA, 'UTF8')), 'hex'), 32)
                    ; END IF
                    ; PERFORM pg_notify(channel, ready_queue)
                ; END IF
            ; END IF
        ; END IF
    ; END LOOP
    ; RETURN NULL
    ; END $$;

CREATE CONSTRAINT TRIGGER run_order_settled AFTER INSERT OR UPDATE ON redrive.run_order
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.pending > 1) EXECUTE FUNCTION redrive.settle_run_order();

-- The end of a run and the end of its dead letter. The id of an ordered run has a mark, so that for other runs only two bytes
-- are compared, also when a worker of the previous version writes.
CREATE FUNCTION redrive.ordered_run_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = 3 WHERE run_id = NEW.id
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER ended_in_order AFTER INSERT ON redrive.ended
FOR EACH ROW WHEN (substring(uuid_send(NEW.id) FROM 15) = '\xf1f0') EXECUTE FUNCTION redrive.ordered_run_ended();

CREATE FUNCTION redrive.ordered_run_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = 3 WHERE run_id = OLD.id
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER removed_in_order AFTER DELETE ON redrive.run_inputs
FOR EACH ROW WHEN (substring(uuid_send(OLD.id) FROM 15) = '\xf1f0') EXECUTE FUNCTION redrive.ordered_run_removed();

CREATE FUNCTION redrive.ordered_letter_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = 3 WHERE run_id = NEW.run_id
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
