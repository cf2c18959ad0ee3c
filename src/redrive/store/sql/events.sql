-- name: insert
-- The unique index keeps a second delivery of an event out.
INSERT INTO redrive.events ({columns:StoredEvent})
SELECT batch.id, batch.org, batch.stream, batch.type, batch.source, batch.user_id, batch.dedupe_key, batch.generation,
    batch.position, batch.payload, batch.occurred_at, batch.stored_at
FROM {batch:StoredEvent}
WHERE true
ON CONFLICT (org, stream, dedupe_key) DO NOTHING
RETURNING id

-- name: project
INSERT INTO redrive.projections ({columns:Projection})
SELECT batch.event_id, batch.projector, batch.version, batch.org, batch.stream, batch.run_id, batch.waits
FROM {batch:Projection}
WHERE true
ON CONFLICT (event_id, projector, version) DO NOTHING

-- name: waiting
SELECT projection.projector, projection.version, {columns:StoredEvent event}
FROM redrive.projections AS projection JOIN redrive.events AS event ON event.id = projection.event_id
WHERE projection.stream = :stream AND projection.org IN {items:orgs} AND projection.waits = 1
    AND (event.generation, event.position) < (:generation, :position)
ORDER BY event.generation, event.position, projection.projector, projection.version
LIMIT :most

-- name: count_waiting
SELECT count(*) FROM redrive.projections AS projection
WHERE projection.stream = :stream AND projection.org IN {items:orgs} AND projection.waits = 1

-- name: release
UPDATE redrive.projections AS projection SET waits = 0, run_id = batch.run_id
FROM {batch:Projection only event_id, projector, version, org, run_id}
WHERE projection.event_id = batch.event_id AND projection.projector = batch.projector
    AND projection.version = batch.version AND projection.org = batch.org AND projection.waits = 1

-- name: get
SELECT {columns:StoredEvent} FROM redrive.events WHERE id = :id AND org = :org

-- name: of_key
SELECT id FROM redrive.events WHERE org = :org AND stream = :stream AND dedupe_key = :dedupe_key

-- name: page
-- The events of a stream, in its order, after one of them.
SELECT {columns:StoredEvent} FROM redrive.events
WHERE org = :org AND stream = :stream AND (generation, position, id) > (:generation, :position, :id)
ORDER BY generation, position, id
LIMIT :most

-- name: newest
SELECT {columns:StoredEvent} FROM redrive.events
WHERE org = :org AND (stored_at, id) < (:stored_at, :id)
ORDER BY stored_at DESC, id DESC
LIMIT :most

-- name: records
SELECT projection.event_id, projection.projector, projection.version, projection.run_id, projection.waits, run.state,
    run.attempt, run.failures, run.started_at, run.ended_at, past.error_type, past.message
FROM redrive.projections AS projection
LEFT JOIN redrive.runs AS run ON run.id = projection.run_id AND run.org = projection.org
LEFT JOIN redrive.attempts AS past
    ON past.run_id = run.id AND past.step_index = run.step_index AND past.number = run.attempt
WHERE projection.event_id = :event_id AND projection.org = :org
ORDER BY projection.projector, projection.version

-- name: unfinished
-- How many runs of these workflows are queued, up to a number.
SELECT count(*) FROM (
    SELECT 1 FROM {_ready}
        AND queue IN {items:queues} AND workflow IN {items:workflows} AND org IN {items:orgs}
    LIMIT :most
) AS queued

-- name: unfinished_waiting
SELECT count(*) FROM (
    SELECT 1 FROM {_waiting}
        AND queue IN {items:queues} AND workflow IN {items:workflows} AND org IN {items:orgs}
    LIMIT :most
) AS queued
