-- name: _over_keys
over_keys (id) AS (
    SELECT (SELECT id FROM redrive.runs WHERE org = :org AND place = 'ended' ORDER BY workflow, queue, state LIMIT 1)
    UNION ALL
    SELECT COALESCE((
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place = 'ended' AND next.workflow = run.workflow AND next.queue = run.queue
            AND next.state > run.state
        ORDER BY next.state LIMIT 1
    ), (
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place = 'ended' AND next.workflow = run.workflow AND next.queue > run.queue
        ORDER BY next.queue, next.state LIMIT 1
    ), (
        SELECT next.id FROM redrive.runs AS next
        WHERE next.org = :org AND next.place = 'ended' AND next.workflow > run.workflow
        ORDER BY next.workflow, next.queue, next.state LIMIT 1
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

-- name: _of_over
org = :org AND place = 'ended' AND workflow = key_workflow AND queue = key_queue AND state = key_state

-- name: _of_idle
org = :org AND place <> 'ended' AND place <> 'leased' AND queue = key_queue AND place = key_place
    AND state = key_state AND workflow = key_workflow

-- name: _wanted_over
SELECT key.workflow AS key_workflow, key.queue AS key_queue, key.state AS key_state
FROM redrive.runs AS key WHERE key.id IN (SELECT over_keys.id FROM over_keys) AND {keys}

-- name: _wanted_idle
SELECT key.queue AS key_queue, key.place AS key_place, key.state AS key_state, key.workflow AS key_workflow
FROM redrive.runs AS key WHERE key.id IN (SELECT idle_keys.id FROM idle_keys) AND {keys}

-- name: _over
SELECT id, submitted_at FROM ({_wanted_over}) AS wanted CROSS JOIN redrive.runs
WHERE {_of_over} AND {rows} AND submitted_at >= COALESCE((
    SELECT max((
        SELECT submitted_at FROM redrive.runs WHERE {_of_over} AND {rows}
        ORDER BY submitted_at DESC LIMIT 1 OFFSET :most - 1
    )) FROM ({_wanted_over}) AS wanted
), 0)

-- name: _idle
SELECT id, submitted_at FROM ({_wanted_idle}) AS wanted CROSS JOIN redrive.runs
WHERE {_of_idle} AND {rows} AND submitted_at >= COALESCE((
    SELECT max((
        SELECT submitted_at FROM redrive.runs WHERE {_of_idle} AND {rows}
        ORDER BY submitted_at DESC LIMIT 1 OFFSET :most - 1
    )) FROM ({_wanted_idle}) AS wanted
), 0)

-- name: _over_all
SELECT id, submitted_at FROM ({_wanted_over}) AS wanted CROSS JOIN redrive.runs WHERE {_of_over} AND {rows}

-- name: _idle_all
SELECT id, submitted_at FROM ({_wanted_idle}) AS wanted CROSS JOIN redrive.runs WHERE {_of_idle} AND {rows}

-- name: _executing
SELECT id, submitted_at FROM redrive.runs AS key WHERE org = :org AND place = 'leased' AND {keys} AND {rows}

-- name: _looked_up
SELECT id, submitted_at FROM redrive.runs WHERE org = :org AND {rows}

-- name: _correlated
{_looked_up}

-- name: _line
{columns:RunLine listed}, failed.error_type, substr(failed.message, 1, 1000),
    CASE WHEN listed.replays > 0 THEN {_requeued_at} END,
    CASE WHEN listed.state = 'DLQ_PENDING' AND EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.run_id = listed.id AND letter.state IN ('OPEN', 'EXHAUSTED')
            AND (letter.next_redrive_at IS NULL
                OR EXISTS (SELECT 1 FROM ({_stuck}) AS stuck WHERE stuck.id = letter.id))
    ) THEN 1 ELSE 0 END

-- name: _requeued_at
-- A dead letter is kept longer than the bulk replay that replayed it.
(SELECT max(at) FROM (
    SELECT max(started_at) AS at FROM redrive.replays WHERE run_id = listed.id AND number IS NOT NULL
    UNION ALL
    SELECT max(last_replayed_at) FROM redrive.dead_letters WHERE run_id = listed.id
) AS replayed)

-- name: _last_failed
-- The last failed attempt of the current step.
run_id = listed.id AND step_index = listed.step_index AND error_type IS NOT NULL AND listed.error_class IS NOT NULL
    AND listed.state <> 'SUCCESS'

-- name: _page
WITH RECURSIVE {_over_keys}, {_idle_keys}
SELECT {_line} FROM redrive.runs AS listed
LEFT JOIN redrive.attempts AS failed ON failed.run_id = listed.id AND failed.step_index = listed.step_index
    AND failed.number = (SELECT max(number) FROM redrive.attempts WHERE {_last_failed})
WHERE listed.id IN (
    SELECT id FROM ({branches}) AS gathered {_newest}
)
ORDER BY listed.submitted_at DESC, listed.id DESC

-- name: _count
WITH RECURSIVE {_over_keys}, {_idle_keys}
SELECT count(*) FROM (SELECT id FROM ({branches}) AS gathered LIMIT :most) AS counted

-- name: _holders
WITH RECURSIVE {_idle_keys}
SELECT held_by, count(*) FROM (
    SELECT held_by FROM ({_wanted_idle}) AS wanted CROSS JOIN redrive.runs WHERE {_of_idle} LIMIT :most
) AS held
WHERE held_by IS NOT NULL
GROUP BY held_by

-- name: _after
(submitted_at, id) < (:last_at, :last_id)

-- name: _lately
submitted_at >= :now - :seconds

-- name: _shortly_before
submitted_at >= :last_at - :seconds

-- name: depths
WITH RECURSIVE {_idle_keys}
SELECT key.queue, key.place, (
    SELECT count(*) FROM (
        SELECT 1 FROM redrive.runs
        WHERE org = :org AND place <> 'ended' AND place <> 'leased' AND queue = key.queue AND place = key.place
            AND state = key.state AND workflow = key.workflow
        LIMIT :most
    ) AS counted
) AS number, 0 AS shared, (
    SELECT submitted_at FROM redrive.runs
    WHERE org = :org AND place <> 'ended' AND place <> 'leased' AND queue = key.queue AND place = key.place
        AND state = key.state AND workflow = key.workflow
    ORDER BY submitted_at, id LIMIT 1
) AS oldest, :now AS now
FROM redrive.runs AS key WHERE key.id IN (SELECT idle_keys.id FROM idle_keys)
UNION ALL SELECT queue, 'leased', count(*), 1, min(submitted_at), :now FROM (
    SELECT queue, submitted_at FROM redrive.runs WHERE org = :org AND place = 'leased' LIMIT :most
) AS leased GROUP BY queue

-- name: overall_depths
-- `oldest` is the oldest of the counted runs of a workflow in a queue, which are the next to be claimed.
WITH RECURSIVE {_ready_queues}, {_ready_kinds}
SELECT queue, 'ready', (
    SELECT count(*) FROM (
        SELECT 1 FROM {_ready} AND queue = kinds.queue AND workflow = kinds.workflow LIMIT :most
    ) AS counted
), 0, (
    SELECT min(submitted_at) FROM (
        SELECT submitted_at FROM {_ready} AND queue = kinds.queue AND workflow = kinds.workflow
        ORDER BY sort_key, id LIMIT :most
    ) AS next
), :now
FROM kinds WHERE workflow IS NOT NULL
UNION ALL SELECT queue, 'waiting', count(*), 1, NULL, :now FROM (
    SELECT queue FROM {_waiting} LIMIT :most
) AS waiting GROUP BY queue
UNION ALL SELECT queue, 'held', count(*), 1, NULL, :now FROM (
    SELECT queue FROM {_held} LIMIT :most
) AS held GROUP BY queue
UNION ALL SELECT queue, 'alone', count(*), 1, min(submitted_at), :now FROM (
    SELECT queue, submitted_at FROM {_alone} LIMIT :most
) AS alone GROUP BY queue
UNION ALL SELECT queue, 'leased', count(*), 1, NULL, :now FROM (
    SELECT queue FROM {_leased} LIMIT :most
) AS leased GROUP BY queue
