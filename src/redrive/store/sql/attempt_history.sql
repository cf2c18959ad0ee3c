-- name: _wanted
run.org = :org AND run.submitted_at >= :since AND run.id > :after

-- name: numbers
SELECT (SELECT count(*) FROM redrive.runs AS run WHERE {_wanted}),
    (SELECT count(*) FROM redrive.attempts AS past JOIN redrive.runs AS run ON run.id = past.run_id
        WHERE past.run_id > :after AND {_wanted})

-- name: tried
-- Pages of whole runs. A success is stored in its finished step, or in the run if that has only one step.
SELECT past.run_id, past.step_index, past.number, past.outcome, past.started_at, past.ended_at, past.delay,
    past.category, past.error_class, past.reason,
    past.decision,
    run.definition, run.workflow, CASE WHEN run.step_index = past.step_index THEN run.queue END,
    COALESCE(finished.attempts, CASE WHEN run.state = 'SUCCESS' AND run.step_index = past.step_index THEN run.attempt END),
    COALESCE(finished.started_at,
        CASE WHEN run.state = 'SUCCESS' AND run.step_index = past.step_index THEN run.attempt_started_at END),
    CASE WHEN run.replays > 0 AND EXISTS (
        SELECT 1 FROM redrive.replays AS again WHERE again.run_id = past.run_id AND again.edit IS NOT NULL
    ) THEN 1 ELSE 0 END
FROM redrive.attempts AS past
JOIN redrive.runs AS run ON run.id = past.run_id
LEFT JOIN redrive.steps AS finished ON finished.run_id = past.run_id AND finished.step_index = past.step_index
WHERE {_wanted} AND past.run_id > :after AND past.run_id <= (
    SELECT page.run_id FROM (
        SELECT past.run_id FROM redrive.attempts AS past JOIN redrive.runs AS run ON run.id = past.run_id
        WHERE {_wanted} AND past.run_id > :after
        ORDER BY past.run_id
        LIMIT :size
    ) AS page ORDER BY page.run_id DESC LIMIT 1
)
ORDER BY past.run_id, past.step_index, past.number

-- name: succeeded
-- Pages of whole runs. A run in which no step succeeded, except by a replay, is a row without a time.
WITH page AS (
    SELECT run.id, run.definition, run.step_index, run.state, run.ended_at, run.replays FROM redrive.runs AS run
    WHERE {_wanted}
    ORDER BY run.id
    LIMIT :size
)
SELECT run.id, run.definition, COALESCE(finished.step_index, run.step_index),
    CASE WHEN run.replays = 0 THEN COALESCE(finished.ended_at, CASE WHEN run.state = 'SUCCESS' THEN run.ended_at END) END
FROM page AS run
LEFT JOIN redrive.steps AS finished
    ON finished.run_id = run.id AND finished.run_id > :after AND finished.run_id <= (SELECT id FROM page ORDER BY id DESC LIMIT 1)
ORDER BY run.id

-- name: definitions
-- The newest definition of each workflow that the org has runs of.
SELECT body FROM redrive.definitions AS known
WHERE EXISTS (
    SELECT 1 FROM {_ended} AND org = :org AND workflow = known.workflow
    UNION ALL
    SELECT 1 FROM redrive.runs AS run
    WHERE run.org = :org AND run.place <> 'ended' AND run.place <> 'leased' AND run.workflow = known.workflow
) AND NOT EXISTS (
    SELECT 1 FROM redrive.definitions AS newer
    WHERE newer.workflow = known.workflow AND (newer.created_at, newer.digest) > (known.created_at, known.digest)
)
ORDER BY workflow
