-- A run keeps its key when it has left the order.
ALTER TABLE runs ADD COLUMN order_key text;

-- A start that is not the head of its key waits. SQLite has one writer, so starts commit in the order of their inserts.
CREATE TRIGGER run_order_started AFTER INSERT ON run_order
WHEN EXISTS (
    SELECT 1 FROM run_order WHERE org = NEW.org AND order_key = NEW.order_key AND position < NEW.position)
BEGIN
    UPDATE runs SET place = 'waiting', due_at = NULL, held_by = 'order:' || NEW.order_key
    WHERE id = NEW.run_id AND place IN ('ready', 'waiting')
    ; END;

-- A run that has ended leaves the order, unless its successors wait for its dead letter. That is written after the run, and so
-- is the event of a failure without a dead letter.
CREATE TRIGGER run_order_ended AFTER UPDATE OF ended_at ON runs
WHEN NEW.order_key IS NOT NULL AND NEW.place = 'ended'
BEGIN
    DELETE FROM run_order
    WHERE run_id = NEW.id AND NOT (NEW.state IN ('FAILED', 'DLQ_PENDING') AND after_failure = 'wait')
    ; END;

CREATE TRIGGER run_order_unburied AFTER INSERT ON run_events WHEN NEW.kind = 'unburied'
BEGIN
    DELETE FROM run_order
    WHERE run_id = NEW.run_id AND EXISTS (SELECT 1 FROM runs WHERE id = NEW.run_id AND place = 'ended')
    ; END;

CREATE TRIGGER run_order_removed AFTER DELETE ON runs WHEN OLD.order_key IS NOT NULL
BEGIN
    DELETE FROM run_order WHERE run_id = OLD.id
    ; END;

-- The last dead letter of a run was closed while the run was not being replayed.
CREATE TRIGGER run_order_closed AFTER UPDATE OF state ON dead_letters
WHEN OLD.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') AND NEW.state NOT IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
    AND EXISTS (SELECT 1 FROM run_order WHERE run_id = NEW.run_id)
BEGIN
    DELETE FROM run_order
    WHERE run_id = NEW.run_id
        AND EXISTS (SELECT 1 FROM runs WHERE id = NEW.run_id AND place = 'ended')
        AND NOT EXISTS (
            SELECT 1 FROM dead_letters WHERE run_id = NEW.run_id AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED'))
    ; END;

-- A repair settles the order of a key again by writing the position of its head.
CREATE TRIGGER run_order_settled AFTER UPDATE OF position ON run_order
BEGIN
    UPDATE runs SET place = CASE WHEN NEW.due_at IS NULL THEN 'ready' ELSE 'waiting' END, due_at = NEW.due_at, held_by = NULL
    WHERE id = NEW.run_id AND place = 'waiting' AND held_by = 'order:' || NEW.order_key
    ; DELETE FROM run_order
    WHERE run_id = NEW.run_id AND NOT EXISTS (SELECT 1 FROM runs WHERE id = NEW.run_id AND place <> 'ended')
        AND NOT (after_failure = 'wait' AND EXISTS (
            SELECT 1 FROM dead_letters WHERE run_id = NEW.run_id AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')))
    ; END;

-- The next run of the key becomes its head. One with a time waits for it, if that has not come.
CREATE TRIGGER run_order_left AFTER DELETE ON run_order
BEGIN
    UPDATE runs SET place = CASE WHEN head.due_at IS NULL THEN 'ready' ELSE 'waiting' END, due_at = head.due_at, held_by = NULL
    FROM (
        SELECT run_id, due_at FROM run_order WHERE org = OLD.org AND order_key = OLD.order_key ORDER BY position LIMIT 1
    ) AS head
    WHERE runs.id = head.run_id AND place = 'waiting' AND held_by = 'order:' || OLD.order_key
    ; END;
