-- name: _id
-- An id is a uuid.
uuid

-- name: _ended_runs
-- The distinct workflows, queues and states are found by skipping; then the runs of each are read.
SELECT ended.id FROM over_keys AS key JOIN redrive.ended
    ON ended.org = :org AND ended.workflow = key.workflow AND ended.queue = key.queue AND ended.state = key.state
WHERE key.state IN ({states}) AND key.workflow LIKE '%:%:%'

-- name: _unfinished_runs
-- Each place is a table, see decision 22.
SELECT id FROM redrive.ready WHERE org = :org AND workflow LIKE '%:%:%'
UNION ALL SELECT id FROM redrive.idle WHERE org = :org AND workflow LIKE '%:%:%'
UNION ALL SELECT id FROM redrive.leases WHERE org = :org AND workflow LIKE '%:%:%'
