-- name: rewrite_run
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET input = CASE WHEN run.input = batch.input THEN batch.new_input ELSE run.input END,
    step_input = CASE WHEN run.step_input = batch.step_input THEN batch.new_step_input ELSE run.step_input END,
    result = CASE WHEN run.result = batch.result THEN batch.new_result ELSE run.result END,
    metadata = CASE WHEN run.metadata = batch.metadata THEN batch.new_metadata ELSE run.metadata END
FROM unnest(CAST(:id AS text[]), CAST(:input AS text[]), CAST(:step_input AS text[]), CAST(:result AS text[]),
    CAST(:metadata AS text[]), CAST(:new_input AS text[]), CAST(:new_step_input AS text[]),
    CAST(:new_result AS text[]), CAST(:new_metadata AS text[]))
    AS batch (id, input, step_input, result, metadata, new_input, new_step_input, new_result, new_metadata)
WHERE run.id = batch.id

-- name: rewrite_step
-- One round trip for the whole batch.
UPDATE redrive.steps AS step SET output = batch.new_output
FROM unnest(CAST(:run_id AS text[]), CAST(:step_index AS integer[]), CAST(:output AS text[]),
    CAST(:new_output AS text[])) AS batch (run_id, step_index, output, new_output)
WHERE step.run_id = batch.run_id AND step.step_index = batch.step_index AND step.output = batch.output

-- name: rewrite_attempt
-- One round trip for the whole batch.
UPDATE redrive.attempts AS attempt SET output = batch.new_output
FROM unnest(CAST(:run_id AS text[]), CAST(:step_index AS integer[]), CAST(:number AS integer[]),
    CAST(:output AS text[]), CAST(:new_output AS text[])) AS batch (run_id, step_index, number, output, new_output)
WHERE attempt.run_id = batch.run_id AND attempt.step_index = batch.step_index AND attempt.number = batch.number
    AND attempt.output = batch.output
