-- name: complete
-- One round trip for the whole batch.
UPDATE redrive.runs AS run
SET place = 'ended', state = 'SUCCESS', step_state = 'SUCCESS', result = batch.result, ended_at = :now,
    lease_expires_at = NULL, {_clean}
FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:epoch AS integer[]), CAST(:result AS text[]))
    AS batch (id, token, epoch, result)
WHERE run.id = batch.id AND run.token = batch.token AND run.epoch = batch.epoch AND run.place = 'leased'
RETURNING run.id
