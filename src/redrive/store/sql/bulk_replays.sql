-- name: _freeze
INSERT INTO redrive.replays (id, org, operation_id, position, letter_id, run_id, step_index, from_step, mode, state,
    automatic, requested_by, requested_at, reason, policy_override, fingerprint, letter_updated_at, effect, breaker)
SELECT CAST(:id AS text) || ':' || CAST(1000000 + position AS text), member.org, :id, position, letter_id, run_id,
    COALESCE(run.step_index, member.step_index), COALESCE(run.step_index, member.step_index), :mode, 'PLANNED', 0,
    :requested_by, :now, :reason, :policy_override, fingerprint, member.updated_at, effect, breaker
FROM

-- name: _member
SELECT id AS letter_id, org, run_id, step_index, fingerprint, updated_at, effect, breaker,
    row_number() OVER (ORDER BY priority DESC, created_at, id) AS position,
    min(CASE WHEN state IN ('OPEN', 'EXHAUSTED') THEN step_index END) OVER (PARTITION BY run_id) AS first_step
FROM redrive.dead_letters

-- name: _selected
-- If an earlier replay went back and failed, the run is at an earlier step than the dead letter. It continues there, with
-- only one item: that of the first of its dead letters.
AS member
LEFT JOIN redrive.runs AS run ON run.id = member.run_id AND run.step_index < member.step_index
    AND member.step_index = member.first_step
WHERE position <= :most

-- name: freeze_ids
-- Without the concatenation, SQLite would read all dead letters of the organization.
{_freeze} ({_member} WHERE (org || '') = :org AND id IN {items:ids}) {_selected}

-- name: unknown_ids
SELECT value FROM {items:ids} AS wanted
WHERE NOT EXISTS (SELECT 1 FROM redrive.dead_letters AS letter WHERE letter.id = value AND letter.org = :org)
LIMIT :most

-- name: _free
NOT EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = item.letter_id AND other.state <> 'RESOLVED'
    )

-- name: obstacles
SELECT item.id, item.position, item.letter_id, letter.state, run.state, run.step_index, item.step_index,
    letter.fingerprint, item.fingerprint
FROM (
    SELECT id, position, letter_id, run_id, step_index, fingerprint, letter_updated_at FROM redrive.replays AS item
    WHERE operation_id = :id AND state = 'PLANNED'
    ORDER BY position
    LIMIT :most
) AS item
LEFT JOIN redrive.dead_letters AS letter ON letter.id = item.letter_id
LEFT JOIN redrive.runs AS run ON run.id = item.run_id
WHERE letter.id IS NULL OR letter.state NOT IN ('OPEN', 'EXHAUSTED') OR letter.fingerprint <> item.fingerprint
    OR letter.updated_at <> item.letter_updated_at OR run.id IS NULL OR run.place <> 'ended'
    OR run.state NOT IN ('DLQ_PENDING', 'FAILED') OR run.step_index <> item.step_index
ORDER BY item.position

-- name: refuse
UPDATE redrive.replays AS item SET state = 'REFUSED', ended_at = :now, note = batch.note
FROM {batch:RefusedItem}
WHERE item.id = batch.id AND item.state = 'PLANNED'

-- name: skip_unsafe
UPDATE redrive.replays AS item SET state = 'SKIPPED', ended_at = :now, note = :note
WHERE operation_id = :id AND state = 'PLANNED' AND EXISTS (
    SELECT 1 FROM redrive.dead_letters AS letter
    WHERE letter.id = item.letter_id AND letter.effect = 'unsafe' AND letter.may_have_executed = 1
)

-- name: taken
WITH going AS (
    SELECT other.letter_id, min(other.operation_id) AS operation_id FROM redrive.replay_operations AS operation
    JOIN redrive.replays AS other ON other.operation_id = operation.id AND other.state = 'PLANNED'
    WHERE operation.org = :org AND operation.id <> :id AND operation.state IN ('RUNNING', 'PAUSED')
    GROUP BY other.letter_id
)
SELECT item.id, item.position, item.letter_id, going.operation_id
FROM redrive.replays AS item JOIN going ON going.letter_id = item.letter_id
WHERE item.operation_id = :id AND item.state = 'PLANNED'
ORDER BY item.position

-- name: refuse_blocked
UPDATE redrive.replays AS item SET state = 'REFUSED', ended_at = :now, note = :note
WHERE operation_id = :id AND state = 'PLANNED' AND EXISTS (
    SELECT 1 FROM redrive.dead_letter_dependencies AS link
    JOIN redrive.dead_letters AS other ON other.id = link.depends_on
    WHERE link.letter_id = item.letter_id AND other.state NOT IN ('RESOLVED', 'REPLAYING')
)

-- name: cancel_planned
UPDATE redrive.replays SET state = 'CANCELLED', ended_at = :now, note = :note
WHERE operation_id = :id AND state = 'PLANNED'

-- name: members
SELECT letter_id, state, fingerprint, letter_updated_at FROM redrive.replays WHERE operation_id = :id ORDER BY position

-- name: effects
SELECT COALESCE(sum(item.from_step), 0),
    COALESCE(sum(CASE WHEN letter.effect = 'unsafe' AND letter.may_have_executed = 1 THEN 1 ELSE 0 END), 0),
    COALESCE(sum(CASE WHEN letter.effect = 'idempotent' AND letter.may_have_executed = 1 THEN 1 ELSE 0 END), 0)
FROM redrive.replays AS item JOIN redrive.dead_letters AS letter ON letter.id = item.letter_id
WHERE item.operation_id = :id AND item.state = 'PLANNED'

-- name: stations
SELECT station.definition, definition.body, station.step_index, station.items
FROM (
    SELECT run.definition, item.step_index, count(*) AS items
    FROM redrive.replays AS item JOIN redrive.runs AS run ON run.id = item.run_id
    WHERE item.operation_id = :id AND item.state = 'PLANNED'
    GROUP BY run.definition, item.step_index
) AS station
JOIN redrive.definitions AS definition ON definition.digest = station.definition
ORDER BY station.definition, station.step_index

-- name: override
UPDATE redrive.replays AS item SET policy_override = :policy
WHERE operation_id = :id AND state = 'PLANNED' AND step_index = :step_index AND EXISTS (
    SELECT 1 FROM redrive.runs AS run WHERE run.id = item.run_id AND run.definition = :definition)

-- name: breakers
SELECT breaker, count(*) FROM redrive.replays
WHERE operation_id = :id AND state = 'PLANNED' AND breaker IS NOT NULL
GROUP BY breaker ORDER BY breaker

-- name: paused_queues
SELECT run.queue, count(*)
FROM redrive.replays AS item
JOIN redrive.runs AS run ON run.id = item.run_id
JOIN redrive.queues AS queue ON queue.name = run.queue AND queue.paused_at IS NOT NULL
WHERE item.operation_id = :id AND item.state = 'PLANNED'
GROUP BY run.queue ORDER BY run.queue

-- name: awaited_letters
SELECT link.depends_on, count(*)
FROM redrive.replays AS item
JOIN redrive.dead_letter_dependencies AS link ON link.letter_id = item.letter_id
JOIN redrive.dead_letters AS other ON other.id = link.depends_on AND other.state <> 'RESOLVED'
WHERE item.operation_id = :id AND item.state = 'PLANNED'
GROUP BY link.depends_on ORDER BY count(*) DESC, link.depends_on
LIMIT :most

-- name: insert
INSERT INTO redrive.replay_operations (id, org, state, mode, selection, options, policy_override, reason, plan,
    planned_by, planned_at, released, updated_at)
VALUES (:id, :org, 'PLANNED', :mode, :selection, :options, :policy_override, :reason, :plan,
    :planned_by, :now, 0, :now)

-- name: save
UPDATE redrive.replay_operations
SET state = :state, options = COALESCE(:options, options), started_by = :started_by, started_at = :started_at, released = :released,
    released_at = :released_at, ramped_at = :ramped_at, ended_at = :ended_at, stopped_because = :stopped_because,
    updated_at = :now
WHERE id = :id AND org = :org

-- name: get
SELECT {columns:ReplayOperation} FROM redrive.replay_operations WHERE id = :id AND org = :org

-- name: lock
SELECT {columns:ReplayOperation}, :now FROM redrive.replay_operations WHERE id = :id AND org = :org FOR UPDATE

-- name: lock_running
SELECT {columns:ReplayOperation}, :now FROM redrive.replay_operations WHERE id = :id AND state = 'RUNNING' FOR UPDATE SKIP LOCKED

-- name: running
SELECT {columns:ReplayOperation}, :now FROM redrive.replay_operations WHERE state = 'RUNNING' ORDER BY updated_at, id

-- name: newest
SELECT {columns:ReplayOperation} FROM redrive.replay_operations WHERE org = :org ORDER BY planned_at DESC, id DESC LIMIT :size

-- name: older
SELECT {columns:ReplayOperation} FROM redrive.replay_operations
WHERE org = :org AND (planned_at, id) < (
    SELECT planned_at, id FROM redrive.replay_operations WHERE id = :cursor AND org = :org
)
ORDER BY planned_at DESC, id DESC LIMIT :size

-- name: tally
SELECT
    (SELECT count(*) FROM redrive.replays WHERE operation_id = :id AND state = 'RUNNING'),
    (SELECT count(*) FROM redrive.replays WHERE operation_id = :id AND state = 'FAILED'),
    (SELECT count(*) FROM redrive.replays WHERE operation_id = :id AND state = 'CANCELLED'),
    (SELECT count(*) FROM redrive.replays
        WHERE operation_id = :id AND state = 'FAILED' AND fingerprint_after = fingerprint),
    (SELECT count(*) FROM (
        SELECT 1 FROM redrive.replays AS item
        WHERE operation_id = :id AND state = 'PLANNED' AND {_free}
        LIMIT :most
    ) AS ready)

-- name: depending
SELECT 1 FROM redrive.replays WHERE operation_id = :id AND state = 'PLANNED' AND breaker = :breaker LIMIT 1

-- name: planned
SELECT 1 FROM redrive.replays WHERE operation_id = :id AND state = 'PLANNED' LIMIT 1

-- name: counts
SELECT state, count(*) FROM redrive.replays WHERE operation_id = :id GROUP BY state

-- name: notes
SELECT note, count(*) FROM redrive.replays
WHERE operation_id = :id AND state IN ('REFUSED', 'SKIPPED')
GROUP BY note ORDER BY count(*) DESC, note
LIMIT :most

-- name: failures
SELECT COALESCE(fingerprint_after, ''), count(*) FROM redrive.replays
WHERE operation_id = :id AND state = 'FAILED'
GROUP BY 1 ORDER BY 2 DESC, 1
LIMIT :most

-- name: failed_as
SELECT COALESCE(fingerprint_after, ''), count(*), sum(CASE WHEN fingerprint_after = fingerprint THEN 1 ELSE 0 END)
FROM redrive.replays
WHERE operation_id = :id AND state = 'FAILED'
GROUP BY 1 ORDER BY 2 DESC, 1
LIMIT :most

-- name: under_way
SELECT {columns:ReplayOperation} FROM redrive.replay_operations
WHERE org = :org AND state IN ('RUNNING', 'PAUSED', 'STOPPED')
ORDER BY planned_at DESC, id DESC
LIMIT :most

-- name: reached
SELECT operation.id, count(*)
FROM redrive.replay_operations AS operation
JOIN redrive.replays AS item ON item.operation_id = operation.id AND item.org = :org
    AND item.fingerprint = :fingerprint AND item.state = 'PLANNED'
JOIN redrive.dead_letters AS letter ON letter.id = item.letter_id AND letter.state IN ('OPEN', 'EXHAUSTED')
WHERE operation.org = :org AND operation.state IN ('RUNNING', 'PAUSED')
GROUP BY operation.id ORDER BY operation.id

-- name: progress
SELECT operation_id, state, count(*) FROM redrive.replays
WHERE operation_id IN (
        SELECT id FROM redrive.replay_operations WHERE org = :org AND id IN {items:ids}
    )
    AND state IN ('PLANNED', 'RUNNING', 'FAILED', 'CANCELLED', 'REFUSED', 'SKIPPED')
GROUP BY operation_id, state

-- name: span
SELECT min(started_at), max(ended_at) FROM redrive.replays WHERE operation_id = :id AND started_at IS NOT NULL

-- name: _item
id, org, operation_id, position, letter_id, run_id, step_index, from_step, mode, state, automatic, requested_by,
    requested_at, reason, policy_override, edit, fingerprint, effect, breaker, started_at, ended_at,
    fingerprint_after, note, number

-- name: items
SELECT {_item} FROM redrive.replays
WHERE operation_id = :id AND org = :org AND id > :after AND id <= :last
ORDER BY id
LIMIT :size

-- name: items_in_state
SELECT {_item} FROM redrive.replays
WHERE operation_id = :id AND org = :org AND state = :state AND position > :position
ORDER BY position
LIMIT :size
