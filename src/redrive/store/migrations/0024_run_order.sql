-- Runs with an order key: those of one key are executed one at a time, in the order in which their starts committed
-- (decision 27). A row per unfinished run; the one with the lowest position is the head of its key. The others are parked: they
-- wait without a due time. If a run has one, this table keeps it until the run is the head.
CREATE TABLE redrive.run_order (
    run_id uuid NOT NULL PRIMARY KEY,
    org text NOT NULL,
    order_key text NOT NULL,
    position bigint,
    after_failure text NOT NULL,
    due_at double precision
);
CREATE INDEX run_order_by_key ON redrive.run_order (org, order_key, position);
