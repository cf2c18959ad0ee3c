-- A claim reads the workflows that its worker knows, and no others. Workers of the version before sort the queue instead.
DROP INDEX redrive.ready_order;
CREATE INDEX ready_order ON redrive.ready (queue, workflow, sort_key, id);
