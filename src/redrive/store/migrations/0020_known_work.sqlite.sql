-- A claim reads the workflows that its worker knows, and no others. Workers of the version before sort the queue instead.
DROP INDEX runs_ready;
CREATE INDEX runs_ready ON runs (queue, workflow, sort_key, id) WHERE place = 'ready';
