-- name: _over_keys
-- The distinct keys of ended, found by skipping from one key to the next with row comparisons on the index.
over_keys (workflow, queue, state) AS (
    (SELECT workflow, queue, state FROM redrive.ended WHERE org = :org ORDER BY workflow, queue, state LIMIT 1)
    UNION ALL
    SELECT next.workflow, next.queue, next.state FROM over_keys AS past CROSS JOIN LATERAL (
        SELECT workflow, queue, state FROM redrive.ended
        WHERE org = :org AND (workflow, queue, state) > (past.workflow, past.queue, past.state)
        ORDER BY workflow, queue, state LIMIT 1
    ) AS next
)

-- name: _idle_keys
-- As _over_keys, for ready and idle.
ready_keys (queue, place, state, workflow) AS (
    (SELECT queue, place, state, workflow FROM redrive.ready WHERE org = :org
        ORDER BY queue, place, state, workflow LIMIT 1)
    UNION ALL
    SELECT next.queue, next.place, next.state, next.workflow FROM ready_keys AS past CROSS JOIN LATERAL (
        SELECT queue, place, state, workflow FROM redrive.ready
        WHERE org = :org AND (queue, place, state, workflow) > (past.queue, past.place, past.state, past.workflow)
        ORDER BY queue, place, state, workflow LIMIT 1
    ) AS next
), idle_keys (queue, place, state, workflow) AS (
    (SELECT queue, place, state, workflow FROM redrive.idle WHERE org = :org
        ORDER BY queue, place, state, workflow LIMIT 1)
    UNION ALL
    SELECT next.queue, next.place, next.state, next.workflow FROM idle_keys AS past CROSS JOIN LATERAL (
        SELECT queue, place, state, workflow FROM redrive.idle
        WHERE org = :org AND (queue, place, state, workflow) > (past.queue, past.place, past.state, past.workflow)
        ORDER BY queue, place, state, workflow LIMIT 1
    ) AS next
)

-- name: _with_inputs
-- PostgreSQL skips the join if none of its columns is used.
LEFT JOIN (
    SELECT id AS given_id, idempotency_key, COALESCE(correlation_id, {text:id}) AS correlation_id, tags FROM redrive.run_inputs
) AS given ON given_id = id

-- name: _of_idle
-- All runs in this table are idle.
org = :org AND queue = key.queue AND place = key.place AND state = key.state AND workflow = key.workflow

-- name: _ended_work
-- Only idle work has a holder.
(SELECT *, CAST(NULL AS text) AS held_by FROM redrive.ended) AS work

-- name: _ready_work
(SELECT *, CAST(NULL AS text) AS held_by FROM redrive.ready) AS work

-- name: _over
-- A plain join would compare all runs with the wanted keys; the lateral join reads the runs of each key.
SELECT found.id, found.submitted_at
FROM (SELECT workflow, queue, state, 'ended' AS place FROM over_keys) AS key CROSS JOIN LATERAL (
    SELECT id, submitted_at FROM {_ended_work} {_with_inputs}
    WHERE org = :org AND workflow = key.workflow AND queue = key.queue AND state = key.state AND {rows}
    {_newest}
) AS found
WHERE {keys}

-- name: _idle
-- As _over.
SELECT found.id, found.submitted_at FROM ready_keys AS key CROSS JOIN LATERAL (
    SELECT id, submitted_at FROM {_ready_work} {_with_inputs} WHERE {_of_idle} AND {rows} {_newest}
) AS found
WHERE {keys}
UNION ALL
SELECT found.id, found.submitted_at FROM idle_keys AS key CROSS JOIN LATERAL (
    SELECT id, submitted_at FROM redrive.idle {_with_inputs} WHERE {_of_idle} AND {rows} {_newest}
) AS found
WHERE {keys}

-- name: _over_all
-- As _over.
{_over}

-- name: _idle_all
-- As _over.
{_idle}

-- name: _executing
-- A lease is a separate row.
SELECT id, submitted_at FROM (
    SELECT id, submitted_at, workflow, queue, 'leased' AS place, 'RUNNING' AS state, 'RUNNING' AS step_state, code_version,
        attempt, priority, replays, CAST(NULL AS text) AS held_by
    FROM redrive.leases WHERE org = :org
) AS key {_with_inputs}
WHERE {keys} AND {rows}

-- name: _looked_up
-- The index is on the table of inputs.
SELECT id, submitted_at FROM (
    SELECT run.id, run.workflow, run.queue, run.code_version, run.attempt, run.priority, run.submitted_at, run.state,
        run.place, run.step_state, run.replays, run.held_by, given.idempotency_key,
        given.correlation_id AS given_correlation_id, COALESCE(given.correlation_id, {text:given.id}) AS correlation_id, given.tags
    FROM redrive.run_inputs AS given JOIN redrive.runs AS run ON run.id = given.id WHERE given.org = :org
) AS found
WHERE {rows}

-- name: _correlated
-- As _looked_up. The column holds only correlation ids that a caller set.
SELECT id, submitted_at FROM (
    SELECT run.id, run.workflow, run.queue, run.code_version, run.attempt, run.priority, run.submitted_at, run.state,
        run.place, run.step_state, run.replays, run.held_by, given.idempotency_key, given.correlation_id,
        given.correlation_id AS given_correlation_id, given.tags
    FROM redrive.run_inputs AS given JOIN redrive.runs AS run ON run.id = given.id
    WHERE given.org = :org
) AS found
WHERE {rows}

-- name: _page
-- Look up the runs of the page and their errors one at a time, whatever the planner expects.
WITH RECURSIVE {_over_keys}, {_idle_keys}, chosen AS MATERIALIZED (
    SELECT id, submitted_at FROM ({branches}) AS gathered {_newest}
)
SELECT {_line} FROM chosen
CROSS JOIN LATERAL (SELECT * FROM redrive.runs AS run WHERE run.id = chosen.id OFFSET 0) AS listed
LEFT JOIN LATERAL (
    SELECT error_type, message FROM redrive.attempts WHERE {_last_failed} ORDER BY number DESC LIMIT 1
) AS failed ON true
ORDER BY listed.submitted_at DESC, listed.id DESC

-- name: _holders
-- Held runs are in idle.
WITH RECURSIVE {_idle_keys}
SELECT held_by, count(*) FROM (
    SELECT found.held_by FROM idle_keys AS key
    CROSS JOIN LATERAL (SELECT held_by FROM redrive.idle WHERE {_of_idle} LIMIT :most) AS found
    WHERE {keys}
    LIMIT :most
) AS held
WHERE held_by IS NOT NULL
GROUP BY held_by

-- name: depths
-- Each place is a table, see decision 22.
WITH RECURSIVE {_idle_keys}
SELECT key.queue, key.place, found.number, 0 AS shared, found.oldest, :now AS now FROM ready_keys AS key CROSS JOIN LATERAL (
    SELECT count(*) AS number, (
        SELECT submitted_at FROM redrive.ready WHERE {_of_idle} ORDER BY submitted_at, id LIMIT 1
    ) AS oldest
    FROM (SELECT 1 FROM redrive.ready WHERE {_of_idle} LIMIT :most) AS counted
) AS found
UNION ALL
SELECT key.queue, key.place, found.number, 0, found.oldest, :now FROM idle_keys AS key CROSS JOIN LATERAL (
    SELECT count(*) AS number, (
        SELECT submitted_at FROM redrive.idle WHERE {_of_idle} ORDER BY submitted_at, id LIMIT 1
    ) AS oldest
    FROM (SELECT 1 FROM redrive.idle WHERE {_of_idle} LIMIT :most) AS counted
) AS found
UNION ALL SELECT queue, 'leased', count(*), 1, min(submitted_at), :now FROM (
    SELECT queue, submitted_at FROM redrive.leases WHERE org = :org LIMIT :most
) AS leased GROUP BY queue
