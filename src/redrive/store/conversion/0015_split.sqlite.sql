-- The order of ready work is one stored number: an hour of waiting weighs as much as one point of priority.
ALTER TABLE runs ADD COLUMN sort_key double precision NOT NULL DEFAULT 0;
UPDATE runs SET sort_key = submitted_at - 3600.0 * priority;
DROP INDEX runs_ready;
CREATE INDEX runs_ready ON runs (queue, sort_key, id) WHERE place = 'ready';
DROP INDEX runs_held;
CREATE INDEX runs_held ON runs (held_by, sort_key, id, queue) WHERE place = 'held';
