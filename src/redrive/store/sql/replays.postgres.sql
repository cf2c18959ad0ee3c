-- name: pick
-- SKIP LOCKED, so that two drivers of one operation do not wait for each other. A plain IN could take too many rows.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.replays AS item
    WHERE operation_id = :operation_id AND state = 'PLANNED' AND {_free}
    ORDER BY position
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.replays
{_picked}
FROM picked WHERE id = picked_id
RETURNING {columns:NewReplay except step_input, queue}, number

-- name: _again
-- The columns of the work of an ended run when the run restarts; `batch` is its replay.
SELECT run.submitted_at, run.submitted_at - {_hour} * run.priority AS sort_key, run.attempt_started_at, run.started_at,
        CAST(NULL AS double precision) AS cancel_requested_at, CAST(NULL AS double precision) AS previous_delay,
        CAST(NULL AS double precision) AS first_failed_at, CAST(NULL AS double precision) AS last_failed_at, run.token,
        run.epoch, {_used} AS attempt, batch.from_step AS step_index, run.priority, 0 AS failures, 0 AS rate_limit_waits,
        0 AS holds, 0 AS losses, 0 AS isolated_crashes, 0 AS isolation, COALESCE(run.replays, 0) + 1 AS replays, run.id,
        run.org, run.workflow, COALESCE(batch.queue, run.queue) AS queue,
        COALESCE(batch.step_input, run.step_input) AS step_input, CAST(NULL AS text) AS error_class, run.worker,
        run.code_version, CAST(NULL AS text) AS progress

-- name: _set_by_replays
redrives, step_only, has_letter, policy_override

-- name: _into_ready
INSERT INTO redrive.ready ({columns:WorkRow except {_set_by_replays}}, {_set_by_replays}, place, state, step_state)
SELECT {columns:WorkRow except {_set_by_replays}}, {_set_by_replays}, 'ready', 'RUNNING', 'PENDING' FROM again
RETURNING id, queue

-- name: restart
-- The work moves from ended into ready.
WITH gone AS (
    DELETE FROM redrive.ended AS run
    USING {batch:NewReplay only run_id, letter_id, org, step_index, step_only}
    WHERE run.id = batch.run_id AND run.org = batch.org AND run.state IN ('DLQ_PENDING', 'FAILED')
        AND run.step_index = batch.step_index AND EXISTS (
            SELECT 1 FROM redrive.dead_letters AS letter
            WHERE letter.id = batch.letter_id AND letter.org = batch.org AND letter.run_id = run.id
                AND letter.step_index >= run.step_index AND letter.state IN ('OPEN', 'EXHAUSTED'))
        AND (batch.step_only = 0 OR NOT EXISTS ({_later_letter}))
    RETURNING run.*
), again AS (
    {_again}, {_redriven} AS redrives, batch.step_only, 1 AS has_letter, batch.policy_override
    FROM gone AS run
    JOIN {batch:NewReplay only run_id, letter_id, step_index, from_step, step_input, queue, policy_override, step_only, automatic}
        ON batch.run_id = run.id
)
{_into_ready}

-- name: resume
-- As restart.
WITH gone AS (
    DELETE FROM redrive.ended AS run
    USING {batch:NewReplay only run_id, org, step_index}
    WHERE run.id = batch.run_id AND run.org = batch.org AND run.state IN ('DLQ_PENDING', 'FAILED', 'PARTIAL')
        AND run.step_index = batch.step_index AND NOT EXISTS (
            SELECT 1 FROM redrive.dead_letters AS letter
            WHERE letter.run_id = run.id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED'))
    RETURNING run.*
), again AS (
    {_again}, 0 AS redrives, 0 AS step_only, 0 AS has_letter, CAST(NULL AS text) AS policy_override
    FROM gone AS run JOIN {batch:NewReplay only run_id, from_step, step_input, queue} ON batch.run_id = run.id
)
{_into_ready}

-- name: lock_letters
-- By a list of runs: for a join, PostgreSQL would read all dead letters if it does not expect many more than in the batch.
-- As in replays.sql, in order of ids and not by the index by state.
SELECT {columns:LockedLetter letter} FROM redrive.dead_letters AS letter
WHERE letter.run_id = ANY (CAST(:run_id AS uuid[])) AND (letter.state || '') IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
ORDER BY letter.id
FOR UPDATE OF letter
