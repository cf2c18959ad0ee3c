-- name: insert
INSERT INTO redrive.rebuilds ({columns:Rebuild except created_at, updated_at, resumed_at, released_at},
    created_at, updated_at, resumed_at, released_at)
VALUES (:id, :org, :stream, :projector, :version, :state, :types, :since, :until, :only_missing, :rate, :max_failures,
    :total, :seen, :started, :skipped, :reason, :created_by, :ended_at, :stopped_because, :generation, :position, :event_id,
    :end_generation, :end_position, :end_event_id, :now, :now, :now, :now)

-- name: get
SELECT {columns:Rebuild} FROM redrive.rebuilds WHERE id = :id AND org = :org

-- name: lock
SELECT {columns:Rebuild}, :now FROM redrive.rebuilds WHERE id = :id AND org = :org FOR UPDATE

-- name: lock_running
SELECT {columns:Rebuild}, :now FROM redrive.rebuilds WHERE id = :id AND state = 'RUNNING' FOR UPDATE SKIP LOCKED

-- name: running
SELECT {columns:Rebuild}, :now FROM redrive.rebuilds WHERE state = 'RUNNING' ORDER BY created_at

-- name: unfinished
SELECT id FROM redrive.rebuilds
WHERE org = :org AND stream = :stream AND projector = :projector AND version = :version
    AND state IN ('RUNNING', 'PAUSED', 'STOPPED')

-- name: save
UPDATE redrive.rebuilds
SET state = :state, seen = :seen, started = :started, skipped = :skipped, resumed_at = :resumed_at,
    released_at = :released_at, ended_at = :ended_at, stopped_because = :stopped_because, generation = :generation,
    position = :position, event_id = :event_id, updated_at = :now
WHERE id = :id AND org = :org

-- name: page
SELECT {columns:Rebuild} FROM redrive.rebuilds
WHERE org = :org AND (created_at, id) < (:at, :id)
ORDER BY created_at DESC, id DESC
LIMIT :size

-- name: last
SELECT generation, position, id FROM redrive.events
WHERE org = :org AND stream = :stream
ORDER BY generation DESC, position DESC, id DESC
LIMIT 1

-- name: count
SELECT count(*) FROM redrive.events WHERE org = :org AND stream = :stream

-- name: executing
SELECT count(*) FROM {_leased} AND workflow = :workflow AND org = :org

-- name: next_events
SELECT {columns:StoredEvent} FROM redrive.events
WHERE org = :org AND stream = :stream AND (generation, position, id) > (:generation, :position, :event_id)
    AND (generation, position, id) <= (:end_generation, :end_position, :end_event_id)
ORDER BY generation, position, id
LIMIT :most
