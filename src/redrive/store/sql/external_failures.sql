-- name: live
SELECT sum(number) FROM redrive.dead_letter_counts
WHERE org = :org AND queue = :queue AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')

-- name: _with_letter
-- An exhausted letter has used its redrives: a new failure gets a new letter.
SELECT run.id, run.idempotency_key, run.request_hash, letter.id
FROM {_given} AS run
LEFT JOIN redrive.dead_letters AS letter ON letter.run_id = run.id AND letter.state IN ('OPEN', 'REPLAYING')

-- name: lock_known
{_with_letter}
WHERE run.org = :org AND run.idempotency_key = :key
FOR UPDATE OF run

-- name: lock_numbered
-- The tasks that were stored beside the one with this id: their ids end with ~2, ~3, ... (':' follows '9')
{_with_letter}
WHERE run.org = :org AND run.idempotency_key > :numbered_key AND run.idempotency_key < :numbered_key || ':'
FOR UPDATE OF run

-- name: newest_letter
SELECT letter.id FROM redrive.dead_letters AS letter JOIN {_given} AS run ON run.id = letter.run_id
WHERE run.org = :org AND run.idempotency_key = :key
ORDER BY letter.created_at DESC, letter.id DESC
LIMIT 1

-- name: give_up_key
UPDATE {_given} SET idempotency_key = NULL, request_hash = NULL WHERE id = :run_id

-- name: insert
INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place, submitted_at, step_index,
    step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses, isolated_crashes, isolation, token, worker,
    code_version, leased_until, attempt_started_at, started_at, idempotency_key, request_hash,
    given_correlation_id, tags, metadata, sort_key)
VALUES (:id, :org, :workflow, :definition, :queue, :priority, 'RUNNING', 'leased', :now, 0,
    'RUNNING', :input, :attempt, 1, 0, 0, 0, 0, 0, 0, :token, :worker,
    :code_version, :now + 60, :now, :now, :key, :request_hash, :correlation_id, :tags, :metadata,
    :now - {_hour} * :priority)
RETURNING {columns:Claim}

-- name: take_again
-- The input of the run stays: the task is the same.
UPDATE redrive.runs
SET place = 'leased', state = 'RUNNING', step_state = 'RUNNING', workflow = :workflow, definition = :definition,
    priority = :priority, step_input = NULL, tags = :tags, metadata = COALESCE(:metadata, metadata),
    attempt = attempt + 1, epoch = epoch + 1, replays = replays + 1, step_only = 0, has_letter = 1, token = :token,
    worker = :worker, code_version = :code_version, leased_until = :now + 60, attempt_started_at = :now, ended_at = NULL,
    failures = 0, rate_limit_waits = 0, holds = 0, losses = 0, isolated_crashes = 0, isolation = 0, previous_delay = NULL,
    policy_override = NULL, due_at = NULL, held_by = NULL, sort_key = submitted_at - {_hour} * :priority
WHERE id = :run_id AND org = :org AND place = 'ended'
RETURNING {columns:Claim}

-- name: _item
SELECT letter.id, letter.run_id, run.correlation_id, run.input, run.metadata, letter.state, letter.category,
    letter.error_type, letter.message, (
        SELECT past.message FROM redrive.attempts AS past
        WHERE past.run_id = run.id ORDER BY past.step_index, past.number LIMIT 1
    ), letter.redrive, letter.redrives, letter.max_redrives, letter.next_redrive_at, letter.created_at,
    letter.updated_at, run.attempt, letter.priority, CASE WHEN EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = letter.id AND other.state <> 'RESOLVED') THEN 1 ELSE 0 END
FROM redrive.dead_letters AS letter JOIN redrive.runs AS run ON run.id = letter.run_id

-- name: find
{_item}
WHERE run.org = :org AND run.idempotency_key = :key
ORDER BY letter.created_at DESC, letter.id DESC
LIMIT 1

-- name: page
{_item}
WHERE letter.org = :org AND letter.queue = :queue AND letter.state = :state
ORDER BY letter.created_at, letter.id
LIMIT :most

-- name: _removable
SELECT id FROM {_ended} AND org = :org AND id IN (
    SELECT letter.run_id FROM redrive.dead_letters AS letter WHERE letter.org = :org AND letter.queue = :queue
)

-- name: _gone
FROM redrive.dead_letters AS letter
WHERE letter.org = :org AND letter.queue = :queue
    AND NOT EXISTS (SELECT 1 FROM {_given} AS run WHERE run.id = letter.run_id)

-- name: lock_removable
-- Lock the rows: a concurrent replay of one of them waits, or has locked it first.
{_removable}
ORDER BY id
FOR UPDATE

-- name: count_gone
INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT CAST(:org AS text), 'left', '', CAST(floor(:now / 300) AS bigint) * 300, count(*) {_gone}
    AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
HAVING count(*) > 0
ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = tallies.number + excluded.number

-- name: clear_notes
DELETE FROM redrive.dead_letter_notes WHERE letter_id IN (SELECT letter.id {_gone})

-- name: clear_dependencies
DELETE FROM redrive.dead_letter_dependencies WHERE letter_id IN (SELECT letter.id {_gone})

-- name: clear_attempts
DELETE FROM redrive.attempts WHERE run_id IN (SELECT letter.run_id {_gone})

-- name: clear_steps
DELETE FROM redrive.steps WHERE run_id IN (SELECT letter.run_id {_gone})

-- name: clear_events
DELETE FROM redrive.run_events WHERE run_id IN (SELECT letter.run_id {_gone})

-- name: clear_runs
DELETE FROM redrive.runs WHERE id IN ({_removable})

-- name: clear_replays
DELETE FROM redrive.replays WHERE operation_id IS NULL AND run_id IN (SELECT letter.run_id {_gone})

-- name: clear_letters
DELETE FROM redrive.dead_letters
WHERE org = :org AND queue = :queue
    AND NOT EXISTS (SELECT 1 FROM {_given} AS run WHERE run.id = redrive.dead_letters.run_id)
RETURNING id
