-- name: lock
SELECT event.id FROM redrive.events AS event JOIN {batch:EventKey}
ON event.id = batch.id
WHERE event.org = batch.org
FOR UPDATE OF event

-- name: runs
SELECT projection.event_id, projection.run_id FROM redrive.projections AS projection JOIN {batch:ProjectionKey}
ON projection.event_id = batch.event_id AND projection.projector = batch.projector AND projection.version = batch.version
WHERE projection.org = batch.org

-- name: begin
INSERT INTO redrive.projections ({columns:Projection})
SELECT batch.event_id, batch.projector, batch.version, batch.org, batch.stream, batch.run_id, batch.waits
FROM {batch:Projection}
WHERE true
ON CONFLICT (event_id, projector, version) DO NOTHING
RETURNING run_id

-- name: follow
UPDATE redrive.projections AS projection SET run_id = batch.run_id
FROM {batch:NextRun}
WHERE projection.event_id = batch.event_id AND projection.projector = batch.projector
    AND projection.version = batch.version AND projection.org = batch.org AND projection.run_id = batch.old_run_id
    AND {_settled}
RETURNING projection.run_id

-- name: _settled
-- The run has ended, or was removed, and has no live dead letter.
projection.waits = 0
    AND NOT EXISTS (SELECT 1 FROM redrive.runs AS run WHERE run.id = projection.run_id AND run.place <> 'ended')
    AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.run_id = projection.run_id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED'))

-- name: expired
-- Old events whose projections have all settled; not of a stream that is being rebuilt: the rebuild reads them.
SELECT event.id FROM redrive.events AS event
WHERE event.org = :org AND event.stream = :stream AND event.stored_at < :now - :age
    AND event.type IN {items:types} AND {_removable}
ORDER BY event.stored_at
LIMIT :most
FOR UPDATE OF event SKIP LOCKED

-- name: _removable
NOT EXISTS (
        SELECT 1 FROM redrive.projections AS projection WHERE projection.event_id = event.id AND NOT ({_settled}))
    AND NOT EXISTS (
        SELECT 1 FROM redrive.rebuilds AS rebuild
        WHERE rebuild.org = event.org AND rebuild.stream = event.stream
            AND rebuild.state IN ('RUNNING', 'PAUSED', 'STOPPED'))

-- name: remove
DELETE FROM redrive.events AS event
WHERE event.id = :id AND event.org = :org AND {_removable}
RETURNING id

-- name: remove_projections
DELETE FROM redrive.projections WHERE event_id = :id AND org = :org

-- name: types
WITH RECURSIVE names (name) AS (
    SELECT (SELECT min(type) FROM redrive.events WHERE org = :org)
    UNION ALL
    SELECT (SELECT min(type) FROM redrive.events WHERE org = :org AND type > names.name)
    FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL
