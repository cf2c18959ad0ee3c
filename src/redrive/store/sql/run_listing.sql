-- name: _line
listed.id, listed.workflow, listed.definition, listed.queue, listed.priority, listed.state, listed.place,
    listed.step_index, listed.step_state, listed.submitted_at, listed.due_at, listed.held_by, listed.attempt,
    listed.failures, listed.error_class, listed.first_failed_at, listed.last_failed_at, listed.worker,
    listed.code_version, listed.started_at, listed.attempt_started_at, listed.ended_at, listed.idempotency_key,
    listed.correlation_id, listed.tags, listed.cancel_requested_at, listed.replays, listed.redrives

-- name: _over_keys
over_keys (id) AS (
    SELECT (SELECT id FROM redrive.runs WHERE org = :org AND place = 'ended' ORDER BY workflow, state LIMIT 1)
    UNION ALL
    SELECT COALESCE((
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place = 'ended' AND next.workflow = run.workflow AND next.state > run.state
        ORDER BY next.state LIMIT 1
    ), (
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place = 'ended' AND next.workflow > run.workflow
        ORDER BY next.workflow, next.state LIMIT 1
    ))
    FROM over_keys JOIN redrive.runs AS run ON run.id = over_keys.id
)

-- name: _idle_keys
idle_keys (id) AS (
    SELECT (
        SELECT id FROM redrive.runs WHERE org = :org AND place <> 'ended' AND place <> 'leased'
        ORDER BY queue, place, state, workflow LIMIT 1
    )
    UNION ALL
    SELECT COALESCE((
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place <> 'ended' AND next.place <> 'leased'
            AND next.queue = run.queue AND next.place = run.place AND next.state = run.state
            AND next.workflow > run.workflow
        ORDER BY next.workflow LIMIT 1
    ), (
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place <> 'ended' AND next.place <> 'leased'
            AND next.queue = run.queue AND next.place = run.place AND next.state > run.state
        ORDER BY next.state, next.workflow LIMIT 1
    ), (
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place <> 'ended' AND next.place <> 'leased'
            AND next.queue = run.queue AND next.place > run.place
        ORDER BY next.place, next.state, next.workflow LIMIT 1
    ), (
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place <> 'ended' AND next.place <> 'leased' AND next.queue > run.queue
        ORDER BY next.queue, next.place, next.state, next.workflow LIMIT 1
    ))
    FROM idle_keys JOIN redrive.runs AS run ON run.id = idle_keys.id
)

-- name: _newest
ORDER BY submitted_at DESC, id DESC LIMIT :most

-- name: _own_over
SELECT id, submitted_at FROM redrive.runs
WHERE org = :org AND place = 'ended' AND workflow = key.workflow AND state = key.state AND {rows}
{_newest}

-- name: _own_idle
SELECT id, submitted_at FROM redrive.runs
WHERE org = :org AND place <> 'ended' AND place <> 'leased' AND queue = key.queue AND place = key.place
    AND state = key.state AND workflow = key.workflow AND {rows}
{_newest}

-- name: _over
SELECT found.id, found.submitted_at FROM over_keys
CROSS JOIN redrive.runs AS key ON key.id = over_keys.id
CROSS JOIN redrive.runs AS found ON found.id IN (SELECT own.id FROM ({_own_over}) AS own)
WHERE {keys}

-- name: _idle
SELECT found.id, found.submitted_at FROM idle_keys
CROSS JOIN redrive.runs AS key ON key.id = idle_keys.id
CROSS JOIN redrive.runs AS found ON found.id IN (SELECT own.id FROM ({_own_idle}) AS own)
WHERE {keys}

-- name: _leased
SELECT id, submitted_at FROM redrive.runs AS key WHERE org = :org AND place = 'leased' AND {keys} AND {rows}

-- name: _looked_up
SELECT id, submitted_at FROM redrive.runs WHERE org = :org AND {rows}

-- name: _page
WITH RECURSIVE {_over_keys}, {_idle_keys}
SELECT {_line} FROM redrive.runs AS listed WHERE listed.id IN (
    SELECT id FROM ({branches}) AS gathered {_newest}
)
ORDER BY listed.submitted_at DESC, listed.id DESC

-- name: _count
WITH RECURSIVE {_over_keys}, {_idle_keys}
SELECT count(*) FROM (SELECT id FROM ({branches}) AS gathered LIMIT :most) AS counted

-- name: _held
WITH RECURSIVE {_idle_keys}
SELECT listed.held_by, count(*) FROM redrive.runs AS listed WHERE listed.id IN (
    SELECT id FROM ({branches}) AS found {_newest}
) AND listed.held_by IS NOT NULL
GROUP BY listed.held_by

-- name: _after
(submitted_at, id) < (:last_at, :last_id)

-- name: depths
WITH RECURSIVE {_idle_keys}
SELECT key.queue, key.place, (
    SELECT count(*) FROM (
        SELECT 1 FROM redrive.runs
        WHERE org = :org AND place <> 'ended' AND place <> 'leased' AND queue = key.queue AND place = key.place
            AND state = key.state AND workflow = key.workflow
        LIMIT :most
    ) AS counted
), 0, (
    SELECT submitted_at FROM redrive.runs
    WHERE org = :org AND place <> 'ended' AND place <> 'leased' AND queue = key.queue AND place = key.place
        AND state = key.state AND workflow = key.workflow
    ORDER BY submitted_at, id LIMIT 1
), :now
FROM idle_keys JOIN redrive.runs AS key ON key.id = idle_keys.id
UNION ALL SELECT queue, 'leased', count(*), 1, min(submitted_at), :now FROM (
    SELECT queue, submitted_at FROM redrive.runs WHERE org = :org AND place = 'leased' LIMIT :most
) AS leased GROUP BY queue

-- name: overall_depths
WITH RECURSIVE queue_names (queue) AS (
    SELECT (SELECT min(queue) FROM redrive.runs WHERE place = 'ready')
    UNION ALL
    SELECT (SELECT min(queue) FROM redrive.runs WHERE place = 'ready' AND queue > queue_names.queue)
    FROM queue_names WHERE queue_names.queue IS NOT NULL
)
SELECT queue_names.queue, 'ready', (
    SELECT count(*) FROM (
        SELECT 1 FROM redrive.runs WHERE place = 'ready' AND queue = queue_names.queue LIMIT :most
    ) AS counted
), 0, CAST(NULL AS double precision), :now
FROM queue_names WHERE queue_names.queue IS NOT NULL
UNION ALL SELECT queue, 'waiting', count(*), 1, NULL, :now FROM (
    SELECT queue FROM redrive.runs WHERE place = 'waiting' LIMIT :most
) AS waiting GROUP BY queue
UNION ALL SELECT queue, 'held', count(*), 1, NULL, :now FROM (
    SELECT queue FROM redrive.runs WHERE place = 'held' LIMIT :most
) AS held GROUP BY queue
UNION ALL SELECT queue, 'alone', count(*), 1, NULL, :now FROM (
    SELECT queue FROM redrive.runs WHERE place = 'alone' LIMIT :most
) AS alone GROUP BY queue
UNION ALL SELECT queue, 'leased', count(*), 1, NULL, :now FROM (
    SELECT queue FROM redrive.runs WHERE place = 'leased' LIMIT :most
) AS leased GROUP BY queue
