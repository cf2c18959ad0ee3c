-- name: populations
SELECT 'runs', count(*) FROM redrive.runs
UNION ALL SELECT 'leased runs', count(*) FROM redrive.runs WHERE place = 'leased'
UNION ALL SELECT 'waiting runs', count(*) FROM redrive.runs WHERE place = 'waiting'
UNION ALL SELECT 'failed runs', count(*) FROM redrive.runs WHERE state IN ('FAILED', 'DLQ_PENDING')
UNION ALL SELECT 'unfinished steps', count(*) FROM redrive.runs WHERE state NOT IN ('SUCCESS', 'PARTIAL') AND attempt > 0
UNION ALL SELECT 'steps', count(*) FROM redrive.steps
UNION ALL SELECT 'attempts', count(*) FROM redrive.attempts
UNION ALL SELECT 'waits', count(*) FROM redrive.attempts WHERE delay IS NOT NULL
UNION ALL SELECT 'dead letters', count(*) FROM redrive.dead_letters
UNION ALL SELECT 'replays', count(*) FROM redrive.replays
UNION ALL SELECT 'runs in order', count(*) FROM redrive.run_order

-- name: tallies
SELECT id, failures, charged, rate_limit_waits, hinted
FROM (
    SELECT id, place, state, failures, rate_limit_waits,
        (SELECT count(*) FROM redrive.attempts AS past
            WHERE past.run_id = run.id AND past.step_index = run.step_index AND past.replay = run.replays
                AND past.reason = 'backoff') AS charged,
        (SELECT count(*) FROM redrive.attempts AS past
            WHERE past.run_id = run.id AND past.step_index = run.step_index AND past.replay = run.replays
                AND past.reason = 'rate_limit_hint') AS hinted
    FROM redrive.runs AS run
    WHERE state NOT IN ('SUCCESS', 'PARTIAL') AND attempt > 0
) AS counted
WHERE rate_limit_waits <> hinted
    OR failures < charged
    OR failures > charged + CASE WHEN state IN ('FAILED', 'DLQ_PENDING') THEN 1 ELSE 0 END
LIMIT :most

-- name: waits
-- Pages of whole runs: attempts followed by another one, or by none because all attempts were used up.
SELECT past.run_id, past.step_index, past.number, past.kind,
    row_number() OVER same_kind AS ordinal, past.category, past.delay, lag(past.delay) OVER same_kind AS previous,
    past.asked_for, run.definition, CASE
        WHEN past.replay > 0 AND again.from_step = past.step_index THEN again.policy_override
        WHEN past.replay = run.replays AND run.step_index = past.step_index THEN run.policy_override END AS override,
    CASE WHEN past.replay = 0 OR again.id IS NOT NULL THEN 1 ELSE 0 END AS known
FROM (
    SELECT run_id, step_index, number, replay, category, delay,
        CASE WHEN reason IN ('backoff', 'attempts_spent') THEN 'charged' WHEN reason = 'rate_limit_hint' THEN 'hinted'
            ELSE 'released' END AS kind,
        CASE WHEN decision LIKE '%"hint":%' THEN 1 ELSE 0 END AS asked_for
    FROM redrive.attempts
    WHERE (delay IS NOT NULL OR reason = 'attempts_spent') AND run_id > :after AND run_id <= (
        SELECT run_id FROM (
            SELECT run_id FROM redrive.attempts
            WHERE (delay IS NOT NULL OR reason = 'attempts_spent') AND run_id > :after
            ORDER BY run_id
            LIMIT :size
        ) AS page ORDER BY run_id DESC LIMIT 1
    )
) AS past
LEFT JOIN redrive.runs AS run ON run.id = past.run_id
LEFT JOIN redrive.replays AS again ON again.run_id = past.run_id AND again.number = past.replay
WINDOW same_kind AS (PARTITION BY past.run_id, past.step_index, past.replay, past.kind ORDER BY past.number)
ORDER BY past.run_id, past.step_index, past.number

-- name: redrives_renewed
SELECT letter.run_id, letter.id, letter.redrives, count(*)
FROM redrive.replays AS again JOIN redrive.dead_letters AS letter ON letter.id = again.letter_id
WHERE again.automatic = 1
GROUP BY letter.run_id, letter.id, letter.redrives
HAVING count(*) > letter.redrives
LIMIT :most

-- name: numbers_open
SELECT run_id, step_index, count(*), min(number), max(number) FROM redrive.attempts
GROUP BY run_id, step_index
HAVING min(number) <> 1 OR max(number) <> count(*)
LIMIT :most

-- name: numbers_beyond
SELECT past.run_id, past.step_index, past.number, past.outcome
FROM redrive.attempts AS past
JOIN redrive.runs AS run ON run.id = past.run_id
LEFT JOIN redrive.steps AS finished ON finished.run_id = past.run_id AND finished.step_index = past.step_index
WHERE past.number > CASE
    WHEN past.step_index = run.step_index
        THEN run.attempt - CASE WHEN run.place = 'leased' OR run.state IN ('SUCCESS', 'PARTIAL') THEN 1 ELSE 0 END
    WHEN past.step_index < run.step_index THEN COALESCE(finished.attempts - 1, past.number)
    WHEN past.replay < run.replays THEN past.number
    ELSE 0 END
LIMIT :most

-- name: numbers_missing
SELECT id, step_index, expected FROM (
    SELECT id, step_index,
        attempt - CASE WHEN place = 'leased' OR state IN ('SUCCESS', 'PARTIAL') THEN 1 ELSE 0 END AS expected
    FROM redrive.runs WHERE attempt > 0
    UNION ALL
    SELECT run_id, step_index, attempts - 1 FROM redrive.steps
) AS executed
WHERE expected > 0 AND NOT EXISTS (
    SELECT 1 FROM redrive.attempts AS past
    WHERE past.run_id = executed.id AND past.step_index = executed.step_index AND past.number = executed.expected
)
LIMIT :most

-- name: epochs
SELECT id, epoch, attempt + before + held FROM (
    SELECT id, epoch, attempt,
        CASE WHEN step_index = 0 THEN 0 ELSE COALESCE((
            SELECT sum(attempts) FROM redrive.steps AS finished
            WHERE finished.run_id = run.id AND finished.step_index < run.step_index), 0) END AS before,
        (SELECT count(*) FROM redrive.run_events AS event
            WHERE event.run_id = run.id AND event.kind = 'held') AS held
    FROM redrive.runs AS run
) AS counted
WHERE epoch < attempt + before + held
LIMIT :most

-- name: gaps
SELECT run_id, step_index, number, delay, follows - ended_at FROM (
    SELECT past.run_id, past.step_index, past.number, past.delay, past.ended_at,
        COALESCE(following.started_at, finished.started_at, CASE
            WHEN run.step_index <> past.step_index THEN NULL
            WHEN run.attempt = past.number + 1 AND (run.place = 'leased' OR run.state IN ('SUCCESS', 'PARTIAL'))
                THEN run.attempt_started_at
            WHEN run.attempt = past.number AND run.place = 'waiting' THEN run.due_at END) AS follows
    FROM redrive.attempts AS past
    JOIN redrive.runs AS run ON run.id = past.run_id
    LEFT JOIN redrive.attempts AS following
        ON following.run_id = past.run_id AND following.step_index = past.step_index AND following.number = past.number + 1
    LEFT JOIN redrive.steps AS finished
        ON finished.run_id = past.run_id AND finished.step_index = past.step_index
            AND finished.attempts = past.number + 1
    WHERE past.delay IS NOT NULL AND run.cancel_requested_at IS NULL
) AS pairs
WHERE follows < ended_at + delay - :tolerance
LIMIT :most

-- name: unended
-- A run may wait for the dead letter of an earlier run with its order key.
SELECT id, place, state FROM redrive.runs AS run
WHERE place <> 'ended' AND NOT (place = 'waiting' AND held_by IS NOT NULL AND EXISTS (
    SELECT 1 FROM redrive.run_order AS own
    JOIN redrive.run_order AS earlier
        ON earlier.org = own.org AND earlier.order_key = own.order_key AND earlier.position < own.position
    JOIN redrive.dead_letters AS letter ON letter.run_id = earlier.run_id
    WHERE own.run_id = run.id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')))
LIMIT :most

-- name: orders_overtaken
-- Runs that may be executed although another run of their key comes first.
SELECT run.id, run.place, first.run_id
FROM redrive.run_order AS own
JOIN redrive.runs AS run ON run.id = own.run_id
JOIN redrive.run_order AS first ON first.org = own.org AND first.order_key = own.order_key AND first.position = (
    SELECT min(position) FROM redrive.run_order AS any_run
    WHERE any_run.org = own.org AND any_run.order_key = own.order_key)
WHERE first.position < own.position AND run.place <> 'ended' AND NOT (run.place = 'waiting' AND run.held_by IS NOT NULL)
LIMIT :most

-- name: orders_stuck
-- First runs of a key that will not be executed; and runs that wait, but have no place in the order.
SELECT own.run_id, run.place, (
    SELECT count(*) FROM redrive.run_order AS behind
    WHERE behind.org = own.org AND behind.order_key = own.order_key AND behind.position > own.position)
FROM redrive.run_order AS own LEFT JOIN redrive.runs AS run ON run.id = own.run_id
WHERE NOT EXISTS (
        SELECT 1 FROM redrive.run_order AS earlier
        WHERE earlier.org = own.org AND earlier.order_key = own.order_key AND earlier.position < own.position)
    AND (run.id IS NULL OR (run.place = 'waiting' AND run.held_by IS NOT NULL)
        OR (run.place = 'ended' AND NOT (own.after_failure = 'wait' AND EXISTS (
            SELECT 1 FROM redrive.dead_letters AS letter
            WHERE letter.run_id = own.run_id AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')))))
UNION ALL
SELECT run.id, run.place, 0 FROM redrive.runs AS run
WHERE run.place = 'waiting' AND run.held_by IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM redrive.run_order AS own WHERE own.run_id = run.id)
LIMIT :most

-- name: leases_expired
SELECT id, worker, :now - leased_until FROM redrive.runs
WHERE place = 'leased' AND leased_until < :now - :leeway
LIMIT :most

-- name: due_forgotten
SELECT id, :now - due_at FROM redrive.runs WHERE place = 'waiting' AND due_at < :now - :leeway LIMIT :most

-- name: holders
SELECT waiting.held_by, waiting.held, waiting.since, redrive.limits.maximum, redrive.limits.in_use,
    redrive.breakers.body, redrive.breakers.updated_at, :now
FROM (
    SELECT held_by, count(*) AS held, min(COALESCE(attempt_started_at, submitted_at)) AS since FROM redrive.runs
    WHERE place = 'held' AND held_by IS NOT NULL
    GROUP BY held_by
) AS waiting
LEFT JOIN redrive.limits ON waiting.held_by = 'limit:' || redrive.limits.name
LEFT JOIN redrive.breakers ON waiting.held_by = 'breaker:' || redrive.breakers.name

-- name: first_held
SELECT id, epoch FROM redrive.runs
WHERE place = 'held' AND held_by = :held_by
ORDER BY priority DESC, submitted_at, id
LIMIT 1

-- name: failures_without_letter
SELECT id, state, step_index FROM redrive.runs AS run
WHERE state IN ('FAILED', 'DLQ_PENDING') AND NOT EXISTS (
    SELECT 1 FROM redrive.dead_letters AS letter
    WHERE letter.run_id = run.id AND letter.step_index = run.step_index
) AND NOT (state = 'FAILED' AND EXISTS (
    SELECT 1 FROM redrive.run_events AS event WHERE event.run_id = run.id AND event.kind = 'unburied'
))
LIMIT :most

-- name: replays_unsettled
SELECT run.id, 'dead letter', letter.id, run.state
FROM redrive.dead_letters AS letter JOIN redrive.runs AS run ON run.id = letter.run_id
WHERE letter.state = 'REPLAYING' AND run.place = 'ended'
UNION ALL
SELECT run.id, 'replay', again.id, run.state
FROM redrive.replays AS again JOIN redrive.runs AS run ON run.id = again.run_id
WHERE again.state = 'RUNNING' AND run.place = 'ended'
LIMIT :most

-- name: replays_doubled
SELECT run_id, count(*) FROM redrive.replays WHERE state = 'RUNNING' GROUP BY run_id HAVING count(*) > 1
LIMIT :most

-- name: letters_miscounted
SELECT org, fingerprint, state, CAST(sum(counted) AS bigint), CAST(sum(found) AS bigint) FROM (
    SELECT org, fingerprint, queue, category, redrive, state, number AS counted, 0 AS found
    FROM redrive.dead_letter_counts
    UNION ALL
    SELECT org, fingerprint, queue, category, redrive, state, 0, count(*)
    FROM redrive.dead_letters GROUP BY org, fingerprint, queue, category, redrive, state
) AS compared
GROUP BY org, fingerprint, queue, category, redrive, state
HAVING sum(counted) <> sum(found)
LIMIT :most

-- name: live_miscounted
SELECT org, standing, CAST(sum(counted) AS bigint), CAST(sum(found) AS bigint) FROM (
    SELECT org, subject AS standing, number AS counted, 0 AS found FROM redrive.tallies
    WHERE figure = 'standing' AND bucket = 0
    UNION ALL
    SELECT org, CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0, 1
    FROM redrive.dead_letters WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
) AS compared
GROUP BY org, standing
HAVING sum(counted) <> sum(found)
LIMIT :most

-- name: letters_unfounded
SELECT run.id, letter.id, letter.state, letter.step_index, run.state, run.step_index
FROM redrive.dead_letters AS letter JOIN redrive.runs AS run ON run.id = letter.run_id
WHERE letter.state IN ('OPEN', 'EXHAUSTED')
    AND (run.state NOT IN ('FAILED', 'DLQ_PENDING') OR run.step_index > letter.step_index)
LIMIT :most

-- name: letters_disagree
SELECT run.id, letter.id, letter.attempts, run.attempt, letter.failures, run.failures
FROM redrive.dead_letters AS letter
JOIN redrive.runs AS run ON run.id = letter.run_id AND run.step_index = letter.step_index
WHERE letter.state IN ('OPEN', 'EXHAUSTED') AND run.state IN ('FAILED', 'DLQ_PENDING')
    AND (letter.attempts <> run.attempt OR letter.failures <> run.failures OR letter.workflow <> run.workflow)
LIMIT :most

-- name: letters_astray
SELECT run.id, letter.id, letter.org, run.org
FROM redrive.dead_letters AS letter JOIN redrive.runs AS run ON run.id = letter.run_id
WHERE letter.org <> run.org
LIMIT :most

-- name: contradictions
SELECT id, word, state, place, step_state FROM (
    SELECT id, state, place, step_state, CASE
        WHEN state NOT IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'PARTIAL', 'DLQ_PENDING', 'CANCELLED')
            OR place NOT IN ('ready', 'waiting', 'held', 'alone', 'leased', 'ended') THEN 'states'
        WHEN place = 'leased' AND (state <> 'RUNNING' OR step_state <> 'RUNNING') THEN 'states'
        WHEN place NOT IN ('leased', 'ended')
            AND (state NOT IN ('PENDING', 'RUNNING') OR step_state NOT IN ('PENDING', 'RETRYING')) THEN 'states'
        WHEN place = 'ended' AND NOT (state = 'PARTIAL'
            OR (state IN ('SUCCESS', 'FAILED', 'CANCELLED') AND step_state = state)
            OR (state = 'DLQ_PENDING' AND step_state IN ('DLQ', 'BLOCKED'))) THEN 'states'
        WHEN (state = 'PENDING' AND (started_at IS NOT NULL OR attempt > 0 OR step_index > 0 OR replays > 0
                OR step_state <> 'PENDING'))
            OR (state NOT IN ('PENDING', 'CANCELLED') AND (epoch = 0 OR started_at IS NULL)) THEN 'beginning'
        WHEN (epoch = 0) <> (token IS NULL) OR (epoch = 0) <> (worker IS NULL)
            OR (epoch = 0 AND started_at IS NOT NULL) THEN 'token'
        WHEN (place = 'leased') <> (leased_until IS NOT NULL)
            OR (place = 'leased' AND (attempt < 1 OR attempt_started_at IS NULL)) THEN 'lease'
        WHEN (place = 'waiting' AND held_by IS NULL) <> (due_at IS NOT NULL) THEN 'due'
        WHEN place <> 'waiting' AND (place = 'held') <> (held_by IS NOT NULL) THEN 'holder'
        WHEN place = 'waiting' AND held_by NOT LIKE 'order:%' THEN 'holder'
        WHEN (place = 'ended') <> (ended_at IS NOT NULL) THEN 'end'
        WHEN (state = 'SUCCESS' AND result IS NULL) OR (place <> 'ended' AND result IS NOT NULL) THEN 'result'
        WHEN place <> 'leased' AND slots IS NOT NULL THEN 'slots'
        WHEN (place = 'alone' AND isolation <> 1) OR (place IN ('waiting', 'held') AND isolation > 1)
            OR (place = 'ready' AND isolation > 0 AND cancel_requested_at IS NULL) THEN 'alone'
        WHEN (failures > 0) <> (first_failed_at IS NOT NULL) OR (failures > 0) <> (last_failed_at IS NOT NULL)
            OR failures > attempt OR (step_state = 'RETRYING' AND failures + rate_limit_waits = 0) THEN 'failures'
        WHEN (idempotency_key IS NULL) <> (request_hash IS NULL) THEN 'key'
        WHEN step_index < 0 OR attempt < 0 OR failures < 0 OR rate_limit_waits < 0 OR holds < 0 OR losses < 0
            OR isolated_crashes < 0 THEN 'negative'
        END AS word
    FROM redrive.runs
) AS judged
WHERE word IS NOT NULL
LIMIT :most

-- name: steps_missing
SELECT id, state, step_index, expected, finished FROM (
    SELECT id, state, step_index, step_index + CASE WHEN state IN ('SUCCESS', 'PARTIAL') THEN 1 ELSE 0 END AS expected,
        (SELECT count(*) FROM redrive.steps AS step
            WHERE step.run_id = run.id AND step.step_index <= run.step_index) AS finished
    FROM redrive.runs AS run WHERE step_index > 0
) AS counted
WHERE finished < expected
LIMIT :most

-- name: steps_beyond
SELECT step.run_id, step.step_index, step.state, run.step_index, run.state
FROM redrive.steps AS step JOIN redrive.runs AS run ON run.id = step.run_id
WHERE step.state <> 'SUCCESS' OR step.step_index > run.step_index
    OR (step.step_index = run.step_index AND run.state NOT IN ('SUCCESS', 'PARTIAL'))
LIMIT :most

-- name: endings_left
SELECT past.run_id, past.step_index, past.number, past.outcome, run.state
FROM redrive.attempts AS past JOIN redrive.runs AS run ON run.id = past.run_id
WHERE past.delay IS NULL AND past.replay = run.replays
    AND NOT (run.state IN ('FAILED', 'DLQ_PENDING', 'CANCELLED') AND run.step_index = past.step_index
        AND run.attempt <= past.number)
LIMIT :most

-- name: endings_undecided
SELECT run.id, run.state, past.number, past.delay
FROM redrive.runs AS run
JOIN redrive.attempts AS past
    ON past.run_id = run.id AND past.step_index = run.step_index AND past.number = run.attempt
WHERE run.state IN ('FAILED', 'DLQ_PENDING') AND past.delay IS NOT NULL
LIMIT :most

-- name: definitions_missing
SELECT id, workflow, definition FROM redrive.runs AS run
WHERE NOT EXISTS (
    SELECT 1 FROM redrive.definitions AS known
    WHERE known.digest = run.definition AND known.workflow = run.workflow
)
LIMIT :most

-- name: definitions_used
SELECT definition, count(*), max(step_index), min(CASE WHEN state = 'SUCCESS' THEN step_index END)
FROM redrive.runs GROUP BY definition

-- name: overrides
SELECT policy_override, count(*), min({text:id}) FROM redrive.runs WHERE policy_override IS NOT NULL GROUP BY policy_override

-- name: steps_unknown
SELECT id, step_index, state FROM redrive.runs
WHERE definition = :digest AND (step_index > :last OR (state = 'SUCCESS' AND step_index < :last))
LIMIT :most

-- name: leases_of_stopped
SELECT run.id, run.worker FROM redrive.runs AS run
JOIN redrive.workers AS worker ON worker.id = run.worker
WHERE run.place = 'leased' AND worker.state = 'stopped'
LIMIT :most

-- name: strays
SELECT run_id, 'attempt', count(*) FROM redrive.attempts AS stray
WHERE NOT EXISTS (SELECT 1 FROM redrive.runs AS run WHERE run.id = stray.run_id) GROUP BY run_id
UNION ALL
SELECT run_id, 'finished step', count(*) FROM redrive.steps AS stray
WHERE NOT EXISTS (SELECT 1 FROM redrive.runs AS run WHERE run.id = stray.run_id) GROUP BY run_id
UNION ALL
SELECT run_id, 'dead letter', count(*) FROM redrive.dead_letters AS stray
WHERE NOT EXISTS (SELECT 1 FROM redrive.runs AS run WHERE run.id = stray.run_id) GROUP BY run_id
LIMIT :most

-- name: misplaced
-- One table holds all runs, so each run is in exactly one place.
SELECT id, 1 AS places, 1 AS inputs FROM redrive.runs WHERE 1 = 0 LIMIT :most

-- name: states
SELECT state, count(*) FROM redrive.runs GROUP BY state

-- name: audited_orgs
SELECT org FROM redrive.audit_heads UNION SELECT org FROM redrive.audit UNION SELECT org FROM redrive.dead_letters

-- name: letters_of_org
SELECT id, state, {text:run_id} FROM redrive.dead_letters WHERE org = :org

-- name: slots
SELECT 'in use', name, in_use FROM redrive.limits
UNION ALL
SELECT 'noted', slots, count(*) FROM redrive.runs WHERE place = 'leased' AND slots IS NOT NULL GROUP BY slots

-- name: known
SELECT run.id FROM redrive.runs AS run JOIN {batch:RunKey} ON run.id = batch.id

-- name: executed
WITH page AS (
    SELECT id, org, idempotency_key, definition, step_index, state, replays FROM redrive.runs
    WHERE id > :after ORDER BY id LIMIT :size
)
SELECT page.id, page.org, page.idempotency_key, page.definition, page.step_index, page.state, finished.step_index,
    CASE WHEN page.replays = 0 THEN page.step_index ELSE (
        SELECT max(reached.step_index) FROM (
            SELECT past.step_index FROM redrive.attempts AS past WHERE past.run_id = page.id
            UNION ALL SELECT page.step_index
        ) AS reached) END
FROM page LEFT JOIN redrive.steps AS finished ON finished.run_id = page.id
ORDER BY page.id
