-- name: _ready
-- Each place is a table, see decision 22.
redrive.ready WHERE true

-- name: _waiting
redrive.idle WHERE place = 'waiting'

-- name: _held
redrive.idle WHERE place = 'held'

-- name: _alone
redrive.idle WHERE place = 'alone'

-- name: _leased
redrive.leases WHERE true

-- name: _ended
redrive.ended WHERE true

-- name: _ended_runs
redrive.ended

-- name: _has_ended
true

-- name: _given
redrive.run_inputs

-- name: _queued
-- Insert the rows of `moved` into ready or into idle.
into_ready AS (
    INSERT INTO redrive.ready ({columns:WorkRow}, place, state, step_state)
    SELECT {columns:WorkRow}, place, state, step_state FROM moved WHERE place = 'ready'
), into_idle AS (
    INSERT INTO redrive.idle ({columns:WorkRow}, place, state, step_state, due_at, held_by)
    SELECT {columns:WorkRow}, place, state, step_state, due_at, held_by FROM moved WHERE place <> 'ready'
)

-- name: _claims
-- The rows of `leased` with the inputs of their runs, looked up one at a time, whatever the planner expects.
SELECT {columns:Claim} FROM leased CROSS JOIN LATERAL (
    SELECT given.definition, given.input, given.idempotency_key, COALESCE(given.correlation_id, {text:leased.id}) AS correlation_id,
        given.tags, given.metadata
    FROM redrive.run_inputs AS given WHERE given.id = leased.id OFFSET 0
) AS given

-- name: _kept_at_the_end
-- The columns of its work that a successful run keeps; the others describe failures.
submitted_at, attempt_started_at, started_at, cancel_requested_at, token, epoch, attempt, step_index, priority, id, org,
    workflow, queue, step_input, worker, code_version, policy_override

-- name: _kept_of_failures
previous_delay, first_failed_at, last_failed_at, failures, rate_limit_waits, holds, losses, isolated_crashes, isolation,
    error_class, progress

-- name: _replayed
replays, redrives, step_only, has_letter

-- name: _replayed_or_null
NULLIF(replays, 0), NULLIF(redrives, 0), NULLIF(step_only, 0), NULLIF(has_letter, 0)
