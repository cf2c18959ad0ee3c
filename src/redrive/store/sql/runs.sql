-- name: define
INSERT INTO redrive.definitions (digest, workflow, body, created_at) VALUES (:digest, :workflow, :body, :now)
ON CONFLICT (digest) DO NOTHING

-- name: newest_definitions
SELECT digest FROM (
    SELECT digest, row_number() OVER (PARTITION BY workflow ORDER BY created_at DESC, digest) AS age
    FROM redrive.definitions WHERE workflow IN {items:workflows}
) AS definition
WHERE age = 1
ORDER BY digest

-- name: definition
SELECT body FROM redrive.definitions WHERE digest = :digest

-- name: enqueue_mixed
{_enqueue}

-- name: enqueue
{_enqueue}

-- name: enqueue_new
{_given_runs}

-- name: enqueue_in_order
-- Runs with an order key, which triggers park behind their predecessors (decision 27).
{_insert_run_in_order}
SELECT {_given_values}, batch.order_key
FROM {batch:NewRun}
ON CONFLICT DO NOTHING
RETURNING id;
INSERT INTO redrive.run_order (run_id, org, order_key, position, after_failure, due_at)
SELECT batch.id, batch.org, batch.order_key, (
        SELECT COALESCE(max(position), 0) + 1 FROM redrive.run_order WHERE org = batch.org AND order_key = batch.order_key),
    batch.after_failure,
    CASE WHEN COALESCE(batch.at, :now + batch.delay) > :now THEN COALESCE(batch.at, :now + batch.delay) END
FROM {batch:NewRun only id, org, order_key, after_failure, at, delay}

-- name: _enqueue
{_given_runs}
ON CONFLICT DO NOTHING
RETURNING id

-- name: _given_runs
{_insert_run}
SELECT {_given_values}
FROM {batch:NewRun}

-- name: _given_values
batch.id, batch.org, batch.workflow, batch.definition, batch.queue, batch.priority, 'PENDING',
    CASE WHEN COALESCE(batch.at, :now + batch.delay) <= :now THEN 'ready' ELSE 'waiting' END, :now,
    CASE WHEN COALESCE(batch.at, :now + batch.delay) <= :now THEN NULL ELSE COALESCE(batch.at, :now + batch.delay) END,
    0, 'PENDING', batch.input, 0, 0, 0, 0, 0, 0, 0, 0, batch.idempotency_key, batch.request_hash,
    batch.given_correlation_id, batch.tags, batch.metadata, batch.owner, :now - {_hour} * batch.priority

-- name: _insert_run
INSERT INTO redrive.runs ({_new_columns})

-- name: _insert_run_in_order
INSERT INTO redrive.runs ({_new_columns}, order_key)

-- name: _new_columns
id, org, workflow, definition, queue, priority, state, place, submitted_at, due_at, step_index,
    step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses, isolated_crashes, isolation, idempotency_key,
    request_hash, given_correlation_id, tags, metadata, owner, sort_key

-- name: known
SELECT id, request_hash FROM {_given} WHERE org = :org AND idempotency_key = :idempotency_key

-- name: get
SELECT {columns:Run} FROM redrive.runs WHERE id = :id AND org = :org

-- name: all
SELECT {columns:Run} FROM redrive.runs ORDER BY submitted_at, id

-- name: outcome
SELECT state, result FROM redrive.runs WHERE id = :id AND org = :org

-- name: steps
SELECT {columns:FinishedStep}
FROM redrive.steps
WHERE run_id = :id AND EXISTS (SELECT 1 FROM {_given} WHERE id = :id AND org = :org)
ORDER BY step_index

-- name: attempts
-- A worker of the version before has stored a reason and no decision.
SELECT {columns:AttemptRecord except decision}, COALESCE(decision, '{"code":"' || reason || '"}')
FROM redrive.attempts
WHERE run_id = :id AND EXISTS (SELECT 1 FROM {_given} WHERE id = :id AND org = :org)
ORDER BY step_index, number

-- name: events
SELECT {columns:RunEvent} FROM redrive.run_events
WHERE run_id = :id AND EXISTS (SELECT 1 FROM {_given} WHERE id = :id AND org = :org)
ORDER BY at, id

-- name: origin
-- A dead letter is kept longer than the bulk replay that replayed it.
SELECT owner, (SELECT max(at) FROM (
    SELECT max(started_at) AS at FROM redrive.replays WHERE run_id = :id AND number IS NOT NULL
    UNION ALL
    SELECT max(last_replayed_at) FROM redrive.dead_letters WHERE run_id = :id
) AS replayed) FROM {_given} WHERE id = :id AND org = :org

-- name: order
-- A finished run has a key, but no place in the order.
SELECT run.order_key, own.after_failure, (
        SELECT head.run_id FROM redrive.run_order AS head
        WHERE head.org = own.org AND head.order_key = own.order_key AND head.position < own.position
        ORDER BY head.position LIMIT 1
    ), (
        SELECT count(*) FROM (
            SELECT 1 FROM redrive.run_order AS other
            WHERE other.org = own.org AND other.order_key = own.order_key AND other.position < own.position LIMIT :most
        ) AS before
    ), (
        SELECT count(*) FROM (
            SELECT 1 FROM redrive.run_order AS other
            WHERE other.org = own.org AND other.order_key = own.order_key AND other.position > own.position LIMIT :most
        ) AS behind
    )
FROM {_given} AS run LEFT JOIN redrive.run_order AS own ON own.run_id = run.id AND own.org = run.org
WHERE run.id = :id AND run.org = :org AND run.order_key IS NOT NULL

-- name: heads
-- The first run of each order key after a key, and whether it can neither be executed nor be replayed.
WITH RECURSIVE {_order_heads}
SELECT head.run_id, head.org, head.order_key, CASE
    WHEN run.id IS NULL OR (run.place = 'waiting' AND run.held_by IS NOT NULL) THEN 1
    WHEN run.place <> 'ended' THEN 0
    WHEN head.after_failure = 'wait' AND EXISTS (
        SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.run_id = head.run_id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')) THEN 0
    ELSE 1 END
FROM heads JOIN redrive.run_order AS head ON head.run_id = heads.id
LEFT JOIN redrive.runs AS run ON run.id = heads.id
LIMIT :most

-- name: settle_order
-- A trigger settles the order of the key.
UPDATE redrive.run_order SET position = position WHERE run_id = :id
RETURNING run_id

-- name: count_by_place
SELECT place, count(*) FROM redrive.runs WHERE org = :org GROUP BY place

-- name: count_by_state
SELECT state, count(*) FROM redrive.runs WHERE org = :org GROUP BY state

-- name: present
SELECT 1 FROM {_given} WHERE id = :id

-- name: cancel_idle
UPDATE redrive.runs
SET place = 'ended', state = 'CANCELLED', step_state = 'CANCELLED', cancel_requested_at = :now, ended_at = :now,
    due_at = NULL, held_by = NULL
WHERE id = :id AND org = :org AND (place IN ('ready', 'waiting', 'held', 'alone'))
RETURNING id, step_index

-- name: cancel_leased
UPDATE redrive.runs SET cancel_requested_at = COALESCE(cancel_requested_at, :now)
WHERE id = :id AND org = :org AND place = 'leased'
RETURNING id, step_index

-- name: expired
SELECT id FROM {_ended} AND state IN ('SUCCESS', 'CANCELLED') AND ended_at < :now - :age
ORDER BY ended_at
LIMIT :most
FOR UPDATE SKIP LOCKED

-- name: _expired_failures
SELECT id FROM {_ended} AND ended_at < :now - :age AND id IN (
    SELECT letter.run_id
    FROM redrive.dead_letters AS letter JOIN {_ended_runs} AS run ON run.id = letter.run_id
    WHERE letter.state IN ('RESOLVED', 'IGNORED') AND letter.updated_at < :now - :age
        AND {_has_ended} AND run.ended_at < :now - :age
        AND NOT EXISTS (
            SELECT 1 FROM redrive.dead_letters AS other
            WHERE other.run_id = letter.run_id AND other.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED', 'ARCHIVED'))
        AND NOT EXISTS (
            SELECT 1 FROM redrive.dead_letter_dependencies AS link
            JOIN redrive.dead_letters AS waiting ON waiting.id = link.letter_id
            WHERE link.depends_on = letter.id AND waiting.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED'))
    ORDER BY letter.updated_at
    LIMIT :most
)

-- name: expired_failures
{_expired_failures}
FOR UPDATE SKIP LOCKED

-- name: live
SELECT run_id FROM redrive.dead_letters
WHERE run_id = :id AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED', 'ARCHIVED')

-- name: delete_attempts
DELETE FROM redrive.attempts WHERE run_id = :id

-- name: delete_steps
DELETE FROM redrive.steps WHERE run_id = :id

-- name: delete_events
DELETE FROM redrive.run_events WHERE run_id = :id

-- name: delete_notes
DELETE FROM redrive.dead_letter_notes
WHERE letter_id IN (SELECT letter.id FROM redrive.dead_letters AS letter WHERE letter.run_id = :id)

-- name: delete_dependencies
DELETE FROM redrive.dead_letter_dependencies
WHERE letter_id IN (SELECT letter.id FROM redrive.dead_letters AS letter WHERE letter.run_id = :id)

-- name: delete_replays
DELETE FROM redrive.replays WHERE run_id = :id AND operation_id IS NULL

-- name: delete_items
WITH old AS MATERIALIZED (
    SELECT operation.id FROM redrive.replay_operations AS operation
    WHERE operation.state IN ('DONE', 'CANCELLED', 'PLANNED') AND operation.updated_at < :now - :age
    ORDER BY operation.updated_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
DELETE FROM redrive.replays WHERE operation_id IN (SELECT id FROM old)

-- name: delete_operations
DELETE FROM redrive.replay_operations
WHERE state IN ('DONE', 'CANCELLED', 'PLANNED') AND updated_at < :now - :age
    AND NOT EXISTS (SELECT 1 FROM redrive.replays AS item WHERE item.operation_id = redrive.replay_operations.id)

-- name: delete_dead_letters
DELETE FROM redrive.dead_letters WHERE run_id = :id AND state NOT IN ('OPEN', 'REPLAYING', 'EXHAUSTED')

-- name: delete_run
DELETE FROM redrive.runs WHERE id = :id
