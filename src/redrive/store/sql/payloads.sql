-- name: of_letter
SELECT CASE
    WHEN run.step_index = letter.step_index THEN COALESCE(run.step_input, run.input)
    WHEN letter.step_index = 0 THEN run.input
    ELSE (SELECT output FROM redrive.steps WHERE run_id = run.id AND steps.step_index = letter.step_index - 1)
END, run.id
FROM redrive.dead_letters AS letter
JOIN redrive.runs AS run ON run.id = letter.run_id AND run.org = letter.org
WHERE letter.id = :id AND letter.org = :org

-- name: stale_runs
SELECT {columns:RunPayloads} FROM redrive.runs
WHERE id > :after AND (
    substr(input, 1, :length) <> :current OR substr(step_input, 1, :length) <> :current
    OR substr(result, 1, :length) <> :current OR substr(metadata, 1, :length) <> :current
)
ORDER BY id LIMIT :size

-- name: rewrite_run
UPDATE redrive.runs AS run
SET input = CASE WHEN run.input = batch.input THEN batch.new_input ELSE run.input END,
    step_input = CASE WHEN run.step_input = batch.step_input THEN batch.new_step_input ELSE run.step_input END,
    result = CASE WHEN run.result = batch.result THEN batch.new_result ELSE run.result END,
    metadata = CASE WHEN run.metadata = batch.metadata THEN batch.new_metadata ELSE run.metadata END
FROM {batch:NewRunPayloads}
WHERE run.id = batch.id

-- name: stale_steps
SELECT {columns:StepPayload} FROM redrive.steps
WHERE (run_id, step_index) > (:run_id, :step_index) AND substr(output, 1, :length) <> :current
ORDER BY run_id, step_index LIMIT :size

-- name: rewrite_step
UPDATE redrive.steps AS step SET output = batch.new_output
FROM {batch:NewStepPayload}
WHERE step.run_id = batch.run_id AND step.step_index = batch.step_index AND step.output = batch.output

-- name: stale_attempts
SELECT {columns:AttemptPayload} FROM redrive.attempts
WHERE (run_id, step_index, number) > (:run_id, :step_index, :number) AND substr(output, 1, :length) <> :current
ORDER BY run_id, step_index, number LIMIT :size

-- name: rewrite_attempt
UPDATE redrive.attempts AS attempt SET output = batch.new_output
FROM {batch:NewAttemptPayload}
WHERE attempt.run_id = batch.run_id AND attempt.step_index = batch.step_index AND attempt.number = batch.number
    AND attempt.output = batch.output

-- name: stale_events
SELECT {columns:EventPayload} FROM redrive.events
WHERE id > :id AND substr(payload, 1, :length) <> :current
ORDER BY id LIMIT :size

-- name: rewrite_event
UPDATE redrive.events AS event SET payload = batch.new_payload
FROM {batch:NewEventPayload}
WHERE event.id = batch.id AND event.payload = batch.payload
