-- name: _line
{columns:EventLine event}

-- name: _newest
ORDER BY event.stored_at DESC, event.id DESC LIMIT :most

-- name: _after
(event.stored_at, event.id) < (:last_at, :last_id)

-- name: _keyed
-- A dedupe key is unique in its stream, and there are few streams.
event.stream IN (
    WITH RECURSIVE names (name) AS (
        SELECT (SELECT min(stream) FROM redrive.events WHERE org = :org)
        UNION ALL
        SELECT (SELECT min(stream) FROM redrive.events WHERE org = :org AND stream > names.name)
        FROM names WHERE names.name IS NOT NULL
    )
    SELECT name FROM names WHERE name IS NOT NULL
)

-- name: _projected
EXISTS (
    SELECT 1 FROM redrive.projections AS projection
    WHERE projection.event_id = event.id AND projection.org = :org AND {projections}
)

-- name: _projected_with
EXISTS (
    SELECT 1 FROM redrive.projections AS projection LEFT JOIN redrive.runs AS run ON run.id = projection.run_id
    WHERE projection.event_id = event.id AND projection.org = :org AND {projections} AND {status}
)

-- name: _nothing
SELECT projection.event_id, projection.run_id FROM redrive.projections AS projection WHERE 1 = 0

-- name: _waiting
SELECT projection.event_id, projection.run_id FROM redrive.projections AS projection
WHERE projection.waits = 1 AND projection.org = :org AND {projections}

-- name: _of_runs
SELECT projection.event_id, projection.run_id
FROM (SELECT DISTINCT id FROM ({runs}) AS gathered) AS found
CROSS JOIN redrive.projections AS projection CROSS JOIN redrive.runs AS run
WHERE projection.run_id = found.id AND projection.org = :org AND run.id = found.id AND {projections} AND {status}

-- name: _ended_runs
-- Runs of projectors: their names have two colons.
SELECT id FROM redrive.runs WHERE org = :org AND place = 'ended' AND state IN ({states}) AND workflow LIKE '%:%:%'

-- name: _unfinished_runs
SELECT id FROM redrive.runs WHERE org = :org AND place <> 'ended' AND place <> 'leased' AND workflow LIKE '%:%:%'
UNION ALL SELECT id FROM redrive.runs WHERE org = :org AND place = 'leased' AND workflow LIKE '%:%:%'

-- name: _wanted
WITH RECURSIVE {over_keys}, wanted AS MATERIALIZED (
    SELECT DISTINCT event_id FROM ({source}) AS chosen
)

-- name: _wanted_runs
WITH RECURSIVE {over_keys}, wanted AS MATERIALIZED (
    SELECT DISTINCT event_id, run_id FROM ({source}) AS chosen
)

-- name: _wanted_events
wanted CROSS JOIN redrive.events AS event

-- name: _page
SELECT {_line} FROM redrive.events AS event WHERE {where} {_newest}

-- name: _count
SELECT count(*) FROM (SELECT 1 FROM redrive.events AS event WHERE {where} LIMIT :most) AS counted

-- name: _page_of_wanted
{_wanted}
SELECT {_line} FROM {_wanted_events}
WHERE event.id = wanted.event_id AND {where} {_newest}

-- name: _count_of_wanted
{_wanted}
SELECT count(*) FROM (
    SELECT 1 FROM {_wanted_events} WHERE event.id = wanted.event_id AND {where} LIMIT :most
) AS counted

-- name: _letters
-- The dead letters of failed projections, those of the oldest events first.
{_wanted_runs}
SELECT letter.id FROM {_wanted_events} CROSS JOIN redrive.dead_letters AS letter
WHERE event.id = wanted.event_id AND {where} AND letter.run_id = wanted.run_id AND letter.org = :org
    AND letter.state IN ('OPEN', 'EXHAUSTED')
ORDER BY event.stored_at, event.id, letter.id
LIMIT :most

-- name: records
SELECT projection.event_id, projection.projector, projection.version, projection.run_id, projection.waits, run.state,
    run.attempt, run.failures, run.started_at, run.ended_at, past.error_type, past.message
FROM {items:event_ids} AS wanted
JOIN redrive.projections AS projection ON projection.event_id = CAST(wanted.value AS {_id})
LEFT JOIN redrive.runs AS run ON run.id = projection.run_id AND run.org = projection.org
LEFT JOIN redrive.attempts AS past
    ON past.run_id = run.id AND past.step_index = run.step_index AND past.number = run.attempt
WHERE projection.org = :org
ORDER BY projection.event_id, projection.projector, projection.version

-- name: _id
text

-- name: of_run
-- The event that a run projects.
SELECT event_id FROM redrive.projections WHERE run_id = :run_id AND org = :org

-- name: streams
-- The streams that have events.
WITH RECURSIVE names (name) AS (
    SELECT (SELECT min(stream) FROM redrive.events WHERE org = :org)
    UNION ALL
    SELECT (SELECT min(stream) FROM redrive.events WHERE org = :org AND stream > names.name)
    FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL
