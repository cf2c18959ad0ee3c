-- A run keeps its key when it has left the order.
ALTER TABLE redrive.run_inputs ADD COLUMN order_key text;

-- The last position of each key that is in use. Its row is the lock of the key, which a transaction takes when it commits.
CREATE TABLE redrive.order_keys (
    org text NOT NULL,
    order_key text NOT NULL,
    last_position bigint NOT NULL,
    PRIMARY KEY (org, order_key)
);

-- A row is pending from the start of its run, and after its end, until the transaction commits. Only that transaction sees it
-- pending.
ALTER TABLE redrive.run_order ADD COLUMN pending boolean NOT NULL DEFAULT true;
ALTER TABLE redrive.run_order ADD CONSTRAINT run_order_mark CHECK (substring(uuid_send(run_id) FROM 15) = '\xf1f0');
CREATE INDEX run_order_pending ON redrive.run_order (org, order_key) WHERE pending;

-- Release the head of a key if it waited for another run. One with a time still waits for that. Workers that listen to the
-- channel of this schema claim it at once.
CREATE FUNCTION redrive.release_in_order(head uuid, due double precision, holder text, space text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ready_queue text
    ; channel text
    ; BEGIN
    IF due IS NOT NULL THEN
        UPDATE redrive.idle SET due_at = due, held_by = NULL WHERE id = head AND place = 'waiting' AND held_by = holder
        ; RETURN
    ; END IF
    ; WITH gone AS (
        DELETE FROM redrive.idle WHERE id = head AND place = 'waiting' AND held_by = holder RETURNING *
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
    RETURNING queue INTO ready_queue
    ; IF FOUND THEN
        channel := 'redrive_' || space
        ; IF octet_length(channel) > 63 THEN
            channel := 'redrive_' || left(encode(sha256(convert_to(space, 'UTF8')), 'hex'), 32)
        ; END IF
        ; PERFORM pg_notify(channel, ready_queue)
    ; END IF
    ; END $$;

-- Settle the order of every key that the transaction has used, when it commits. The first call settles all of them, in the
-- order of their names, so that transactions cannot deadlock; further calls find nothing pending.
CREATE FUNCTION redrive.settle_run_order() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    used record
    ; last bigint
    ; head record
    ; holder text
    ; BEGIN
    FOR used IN
        SELECT org, order_key, count(*) FILTER (WHERE position IS NULL) AS started FROM redrive.run_order WHERE pending
        GROUP BY org, order_key ORDER BY org, order_key
    LOOP
        holder := 'order:' || used.order_key
        ; INSERT INTO redrive.order_keys AS key (org, order_key, last_position)
        VALUES (used.org, used.order_key, used.started)
        ON CONFLICT (org, order_key) DO UPDATE SET last_position = key.last_position + excluded.last_position
        RETURNING last_position - used.started INTO last
        ; IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- The snapshot is older than the lock: fail if a run has left the order since.
            PERFORM 1 FROM redrive.run_order WHERE org = used.org AND order_key = used.order_key FOR UPDATE
        ; END IF
        ; DELETE FROM redrive.run_order AS own
        WHERE pending AND org = used.org AND order_key = used.order_key
            AND NOT EXISTS (SELECT 1 FROM redrive.ready WHERE id = own.run_id)
            AND NOT EXISTS (SELECT 1 FROM redrive.idle WHERE id = own.run_id)
            AND NOT EXISTS (SELECT 1 FROM redrive.leases WHERE id = own.run_id)
            AND NOT (after_failure = 'wait' AND EXISTS (
                SELECT 1 FROM redrive.dead_letters AS letter
                WHERE letter.run_id = own.run_id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')))
        ; UPDATE redrive.run_order AS own SET pending = false, position = COALESCE(own.position, last + numbered.number)
        FROM (
            SELECT run_id, row_number() OVER (PARTITION BY position IS NULL ORDER BY run_id) AS number
            FROM redrive.run_order WHERE pending AND org = used.org AND order_key = used.order_key
        ) AS numbered
        WHERE own.run_id = numbered.run_id
        ; SELECT run_id, position, due_at INTO head FROM redrive.run_order
        WHERE org = used.org AND order_key = used.order_key ORDER BY position LIMIT 1
        ; IF NOT FOUND THEN
            DELETE FROM redrive.order_keys WHERE org = used.org AND order_key = used.order_key
        ; ELSIF head.position <= last THEN
            PERFORM redrive.release_in_order(head.run_id, head.due_at, holder, TG_TABLE_SCHEMA)
        ; END IF
        ; IF used.started > 1 OR head.position <= last THEN
            -- These wait for the head.
            UPDATE redrive.idle SET due_at = NULL, held_by = holder
            WHERE place = 'waiting' AND id IN (
                SELECT run_id FROM redrive.run_order
                WHERE org = used.org AND order_key = used.order_key AND position > last AND run_id <> head.run_id)
            ; WITH gone AS (
                DELETE FROM redrive.ready WHERE id IN (
                    SELECT run_id FROM redrive.run_order
                    WHERE org = used.org AND order_key = used.order_key AND position > last AND run_id <> head.run_id)
                RETURNING *
            )
            INSERT INTO redrive.idle (
                submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
                first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits,
                holds, losses, isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow,
                queue, step_input, error_class, worker, code_version, policy_override, progress, state, step_state,
                place, held_by)
            SELECT submitted_at, sort_key, attempt_started_at, started_at, cancel_requested_at, previous_delay,
                first_failed_at, last_failed_at, token, epoch, attempt, step_index, priority, failures, rate_limit_waits,
                holds, losses, isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow,
                queue, step_input, error_class, worker, code_version, policy_override, progress, state, step_state,
                'waiting', holder
            FROM gone
        ; END IF
    ; END LOOP
    ; RETURN NULL
    ; END $$;

CREATE CONSTRAINT TRIGGER run_order_settled AFTER INSERT OR UPDATE ON redrive.run_order
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.pending) EXECUTE FUNCTION redrive.settle_run_order();

-- The end of a run and the end of its dead letter. The id of an ordered run has a mark, so that for other runs only two bytes
-- are compared, also when a worker of the previous version writes.
CREATE FUNCTION redrive.ordered_run_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = true WHERE run_id = NEW.id
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER ended_in_order AFTER INSERT ON redrive.ended
FOR EACH ROW WHEN (substring(uuid_send(NEW.id) FROM 15) = '\xf1f0') EXECUTE FUNCTION redrive.ordered_run_ended();

CREATE FUNCTION redrive.ordered_run_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = true WHERE run_id = OLD.id
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER removed_in_order AFTER DELETE ON redrive.run_inputs
FOR EACH ROW WHEN (substring(uuid_send(OLD.id) FROM 15) = '\xf1f0') EXECUTE FUNCTION redrive.ordered_run_removed();

CREATE FUNCTION redrive.ordered_letter_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE redrive.run_order SET pending = true WHERE run_id = NEW.run_id
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
