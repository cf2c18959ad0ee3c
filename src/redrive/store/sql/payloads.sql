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
SELECT id, input, step_input, result, metadata FROM redrive.runs
WHERE id > :after AND (
    substr(input, 1, :length) <> :current OR substr(step_input, 1, :length) <> :current
    OR substr(result, 1, :length) <> :current OR substr(metadata, 1, :length) <> :current
)
ORDER BY id LIMIT :size

-- name: rewrite_run
UPDATE redrive.runs
SET input = CASE WHEN input = :input THEN :new_input ELSE input END,
    step_input = CASE WHEN step_input = :step_input THEN :new_step_input ELSE step_input END,
    result = CASE WHEN result = :result THEN :new_result ELSE result END,
    metadata = CASE WHEN metadata = :metadata THEN :new_metadata ELSE metadata END
WHERE id = :id

-- name: stale_steps
SELECT run_id, step_index, output FROM redrive.steps
WHERE (run_id, step_index) > (:run_id, :step_index) AND substr(output, 1, :length) <> :current
ORDER BY run_id, step_index LIMIT :size

-- name: rewrite_step
UPDATE redrive.steps SET output = :new_output
WHERE run_id = :run_id AND step_index = :step_index AND output = :output

-- name: stale_attempts
SELECT run_id, step_index, number, output FROM redrive.attempts
WHERE (run_id, step_index, number) > (:run_id, :step_index, :number) AND substr(output, 1, :length) <> :current
ORDER BY run_id, step_index, number LIMIT :size

-- name: rewrite_attempt
UPDATE redrive.attempts SET output = :new_output
WHERE run_id = :run_id AND step_index = :step_index AND number = :number AND output = :output
