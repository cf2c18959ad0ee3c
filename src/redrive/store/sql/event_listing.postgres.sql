-- name: _id
-- An id is a uuid.
uuid

-- name: _ended_runs
-- The distinct workflows, queues and states are found by skipping; then the runs of each are read, whatever the planner expects.
SELECT found.id FROM over_keys AS key CROSS JOIN LATERAL (
    SELECT id FROM redrive.ended
    WHERE org = :org AND workflow = key.workflow AND queue = key.queue AND state = key.state
    OFFSET 0
) AS found
WHERE key.state IN ({states}) AND key.workflow LIKE '%:%:%'

-- name: _unfinished_runs
-- Each place is a table, see decision 22.
SELECT id FROM redrive.ready WHERE org = :org AND workflow LIKE '%:%:%'
UNION ALL SELECT id FROM redrive.idle WHERE org = :org AND workflow LIKE '%:%:%'
UNION ALL SELECT id FROM redrive.leases WHERE org = :org AND workflow LIKE '%:%:%'

-- name: _of_runs
-- The projection and the run are looked up one at a time, whatever the planner expects.
SELECT projection.event_id, projection.run_id
FROM (SELECT DISTINCT id FROM ({runs}) AS gathered) AS found
CROSS JOIN LATERAL (SELECT * FROM redrive.projections WHERE run_id = found.id AND org = :org OFFSET 0) AS projection
CROSS JOIN LATERAL (SELECT * FROM redrive.runs WHERE id = found.id OFFSET 0) AS run
WHERE {projections} AND {status}

-- name: _wanted_events
-- The events are looked up one at a time, whatever the planner expects.
wanted CROSS JOIN LATERAL (SELECT * FROM redrive.events WHERE id = wanted.event_id OFFSET 0) AS event
