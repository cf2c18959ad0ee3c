-- name: expired
SELECT worker, count(*), min(leased_until), :now FROM (
    SELECT worker, leased_until FROM {_leased} AND leased_until < :now - :leeway
    ORDER BY leased_until LIMIT :most
) AS expired
GROUP BY worker
ORDER BY min(leased_until)

-- name: overdue
SELECT count(*), min(due_at), :now FROM (
    SELECT due_at FROM {_waiting} AND due_at < :now - :leeway ORDER BY due_at LIMIT :most
) AS late

-- name: letters
SELECT org, subject, CAST(sum(number) AS bigint) FROM redrive.tallies
WHERE figure = 'standing' AND bucket = 0 AND subject IN ('OPEN', 'SCHEDULED', 'REPLAYING', 'EXHAUSTED')
GROUP BY org, subject
UNION ALL
SELECT org, 'STUCK', count(DISTINCT stuck.id) FROM ({_stuck}) AS stuck GROUP BY org

-- name: stuck_letters
-- They wait for a dead letter that no automatic redrive will resolve.
SELECT count(*), min(letter_id) FROM (
    SELECT DISTINCT link.letter_id FROM redrive.dead_letter_dependencies AS link
    JOIN redrive.dead_letters AS letter ON letter.id = link.letter_id
    JOIN redrive.dead_letters AS other ON other.id = link.depends_on
    WHERE letter.state IN ('OPEN', 'EXHAUSTED') AND other.state IN ('EXHAUSTED', 'IGNORED', 'ARCHIVED')
    LIMIT :most
) AS stuck

-- name: oldest_letter
SELECT min(created_at), :now FROM (
    SELECT (
        SELECT created_at FROM redrive.dead_letters AS letter
        WHERE letter.org = known.org AND letter.state = 'OPEN' AND letter.next_redrive_at IS NULL
        ORDER BY created_at, id LIMIT 1
    ) AS created_at
    FROM (SELECT DISTINCT org FROM redrive.tallies WHERE figure = 'standing' AND bucket = 0) AS known
    UNION ALL
    SELECT (
        SELECT created_at FROM redrive.dead_letters AS letter
        WHERE letter.org = known.org AND letter.state = 'EXHAUSTED'
        ORDER BY created_at, id LIMIT 1
    )
    FROM (SELECT DISTINCT org FROM redrive.tallies WHERE figure = 'standing' AND bucket = 0) AS known
    UNION ALL
    SELECT min(stuck.created_at) FROM ({_stuck}) AS stuck
) AS oldest

-- name: blocked_orders
-- The first run of each of the first order keys, with one live dead letter, and the number of runs behind it.
WITH RECURSIVE {_order_heads}
SELECT (
        SELECT min(letter.id) FROM redrive.dead_letters AS letter
        WHERE letter.run_id = head.run_id AND letter.state IN ('OPEN', 'EXHAUSTED')
    ), (
        SELECT count(*) FROM (
            SELECT 1 FROM redrive.run_order AS behind
            WHERE behind.org = head.org AND behind.order_key = head.order_key AND behind.position > head.position
            LIMIT :most
        ) AS waiting
    )
FROM (SELECT id FROM heads LIMIT :keys) AS first JOIN redrive.run_order AS head ON head.run_id = first.id
WHERE EXISTS (
    SELECT 1 FROM redrive.dead_letters AS letter
    WHERE letter.run_id = head.run_id AND letter.state IN ('OPEN', 'EXHAUSTED'))

-- name: streams
SELECT {columns:StreamState} FROM redrive.streams ORDER BY org, name LIMIT :most

-- name: now
SELECT :now

-- name: sealed
SELECT substr(input, CAST(:from AS integer), CAST(:length AS integer)), count(*) FROM (
    SELECT input FROM redrive.runs WHERE place <> 'ended' AND place <> 'leased' LIMIT :most
) AS waiting
WHERE substr(input, 1, 12) = :mark
GROUP BY 1

-- name: executing
SELECT run.id, run.worker, run.step_index, :now - run.attempt_started_at, definition.body FROM redrive.runs AS run
JOIN redrive.definitions AS definition ON definition.digest = run.definition
WHERE run.place = 'leased' AND run.attempt_started_at < :now - :leeway
ORDER BY run.attempt_started_at LIMIT :most
