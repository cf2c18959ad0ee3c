-- name: _holders
WITH RECURSIVE holders (name) AS (
    SELECT min(held_by) FROM {_held} AND held_by >= :first AND held_by < :beyond
    UNION ALL
    SELECT (
        SELECT min(held_by) FROM {_held} AND held_by > holders.name AND held_by < :beyond
    )
    FROM holders WHERE holders.name IS NOT NULL
)

-- name: holders
{_holders}
SELECT name FROM holders WHERE name IS NOT NULL

-- name: forgotten_limits
{_holders}
SELECT name FROM holders
WHERE name IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM redrive.limits WHERE limits.name = substr(holders.name, length('limit:') + 1))

-- name: count_held
SELECT count(*) FROM (SELECT 1 FROM {_held} AND held_by = :held_by LIMIT :most) AS counted

-- name: release
UPDATE redrive.runs SET place = CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END, held_by = NULL
WHERE id IN (
    SELECT id FROM redrive.runs
    WHERE place = 'held' AND held_by = :held_by AND {_released}
    ORDER BY sort_key, id
    LIMIT :most OFFSET :skip
)
RETURNING {columns:Released}

-- name: _released
(CAST(:queues AS text) IS NULL OR queue IN {items:queues})
    AND (CAST(:workflows AS text) IS NULL OR workflow IN {items:workflows})

-- name: hold
UPDATE redrive.runs SET place = 'held', held_by = :held_by
WHERE id IN (
    SELECT id FROM redrive.runs WHERE place = 'ready' AND queue = :queue AND workflow = :workflow
    ORDER BY sort_key, id
    LIMIT :most
)
RETURNING id

-- name: lock_limit
SELECT {columns:LimitRow} FROM redrive.limits WHERE name = :name FOR UPDATE

-- name: save_limit
INSERT INTO redrive.limits ({columns:LimitRow}) SELECT {columns:LimitRow batch} FROM {batch:LimitRow}
ON CONFLICT (name) DO UPDATE SET {assign:LimitRow except name}

-- name: ensure_limit
INSERT INTO redrive.limits (name, maximum, in_use) VALUES (:name, :maximum, 0)
ON CONFLICT (name) DO NOTHING

-- name: limits_with_room
SELECT name, maximum - in_use FROM redrive.limits AS known
WHERE in_use < maximum
    AND EXISTS (SELECT 1 FROM {_held} AND held_by = 'limit:' || known.name)

-- name: forget_limits
-- SKIP LOCKED: waiting for a worker that locks several limits could deadlock.
DELETE FROM redrive.limits WHERE name IN (
    SELECT name FROM redrive.limits AS known
    WHERE in_use = 0
        AND NOT EXISTS (SELECT 1 FROM {_held} AND held_by = 'limit:' || known.name)
    FOR UPDATE SKIP LOCKED
)

-- name: breaker
SELECT {columns:BreakerRow except now}, :now FROM redrive.breakers WHERE name = :name

-- name: breakers
SELECT {columns:BreakerRow except now}, :now FROM redrive.breakers ORDER BY name

-- name: ensure_breaker
INSERT INTO redrive.breakers (name, body, closed_at, released, updated_at) VALUES (:name, '{}', NULL, 0, :now)
ON CONFLICT (name) DO NOTHING

-- name: lock_breaker
SELECT {columns:BreakerRow except now}, :now FROM redrive.breakers WHERE name = :name FOR UPDATE

-- name: save_breaker
UPDATE redrive.breakers SET body = :body, closed_at = :closed_at, released = :released, updated_at = :now
WHERE name = :name

-- name: pause
INSERT INTO redrive.queues (name, paused_at, paused_by, reason) VALUES (:name, :now, :by, :reason)
ON CONFLICT (name) DO UPDATE SET paused_at = :now, paused_by = excluded.paused_by, reason = excluded.reason

-- name: resume
UPDATE redrive.queues SET paused_at = NULL, paused_by = NULL, reason = NULL WHERE name = :name

-- name: queues
SELECT {columns:QueueRow} FROM redrive.queues ORDER BY name

-- name: heartbeat
INSERT INTO redrive.workers (id, started_at, seen_at, code_version, queues, concurrency, in_flight, state, host,
    process, workflows)
VALUES (:id, :now, :now, :code_version, :queues, :concurrency, :in_flight, :state, :host, :process, :workflows)
ON CONFLICT (id) DO UPDATE SET seen_at = :now, in_flight = excluded.in_flight, state = excluded.state,
    workflows = excluded.workflows, blocked_at = NULL, blocked_by = NULL

-- name: note_blocked
UPDATE redrive.workers SET seen_at = :now, blocked_at = :now - :seconds, blocked_by = :by WHERE id = :id

-- name: workers
SELECT {columns:WorkerRow except now}, :now
FROM redrive.workers ORDER BY started_at

-- name: forget_workers
DELETE FROM redrive.workers WHERE seen_at < :now - :age
