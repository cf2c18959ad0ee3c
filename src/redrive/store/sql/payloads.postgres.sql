-- name: rewrite_run
-- A run is two rows, one of which moves. The next pass finds a payload that moves during this one.
WITH changed AS (SELECT * FROM {batch:NewRunPayloads}), given AS (
    UPDATE redrive.run_inputs AS run
    SET input = CASE WHEN run.input = changed.input THEN changed.new_input ELSE run.input END,
        metadata = CASE WHEN run.metadata = changed.metadata THEN changed.new_metadata ELSE run.metadata END
    FROM changed WHERE run.id = changed.id
), ready AS (
    UPDATE redrive.ready AS run SET step_input = changed.new_step_input
    FROM changed WHERE run.id = changed.id AND run.step_input = changed.step_input
), idle AS (
    UPDATE redrive.idle AS run SET step_input = changed.new_step_input
    FROM changed WHERE run.id = changed.id AND run.step_input = changed.step_input
), leased AS (
    UPDATE redrive.leases AS run SET step_input = changed.new_step_input
    FROM changed WHERE run.id = changed.id AND run.step_input = changed.step_input
)
UPDATE redrive.ended AS run
SET step_input = CASE WHEN run.step_input = changed.step_input THEN changed.new_step_input ELSE run.step_input END,
    result = CASE WHEN run.result = changed.result THEN changed.new_result ELSE run.result END
FROM changed WHERE run.id = changed.id
