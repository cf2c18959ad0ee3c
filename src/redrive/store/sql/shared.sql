-- name: _ready
-- The place of the work of runs, as the start of a condition. PostgreSQL has a table for each place.
redrive.runs WHERE place = 'ready'

-- name: _waiting
redrive.runs WHERE place = 'waiting'

-- name: _held
redrive.runs WHERE place = 'held'

-- name: _alone
redrive.runs WHERE place = 'alone'

-- name: _leased
redrive.runs WHERE place = 'leased'

-- name: _ended
redrive.runs WHERE place = 'ended'

-- name: _ended_runs
redrive.runs

-- name: _has_ended
run.place = 'ended'

-- name: _given
redrive.runs

-- name: _hour
-- The seconds of waiting that one point of priority is worth.
3600.0

-- name: _ready_queues
-- The distinct queues of ready work, found by skipping from one to the next.
ready_queues (queue) AS (
    SELECT (SELECT min(queue) FROM {_ready})
    UNION ALL
    SELECT (SELECT min(queue) FROM {_ready} AND queue > ready_queues.queue) FROM ready_queues
    WHERE ready_queues.queue IS NOT NULL
)

-- name: _ready_kinds
-- The distinct workflows of ready work in each of `ready_queues`.
kinds (queue, workflow) AS (
    SELECT queue, (SELECT min(workflow) FROM {_ready} AND queue = ready_queues.queue) FROM ready_queues
    WHERE queue IS NOT NULL
    UNION ALL
    SELECT queue, (SELECT min(workflow) FROM {_ready} AND queue = kinds.queue AND workflow > kinds.workflow)
    FROM kinds WHERE workflow IS NOT NULL
)

-- name: _order_heads
-- The first run of each order key after a key, found by skipping from one to the next.
heads (id) AS (
    SELECT (
        SELECT run_id FROM redrive.run_order WHERE (org, order_key) > (:org, :order_key)
        ORDER BY org, order_key, position LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT following.run_id FROM redrive.run_order AS following
        WHERE (following.org, following.order_key) > (head.org, head.order_key)
        ORDER BY following.org, following.order_key, following.position LIMIT 1
    )
    FROM heads JOIN redrive.run_order AS head ON head.run_id = heads.id
)

-- name: _stuck
-- Open dead letters whose automatic redrive waits for a dead letter that no automatic redrive resolves. The dependencies
-- are read first: callers name each one, so there are few.
SELECT letter.id, letter.org, letter.fingerprint, letter.created_at
FROM redrive.dead_letter_dependencies AS link
CROSS JOIN redrive.dead_letters AS letter
CROSS JOIN redrive.dead_letters AS other
WHERE letter.id = link.letter_id AND other.id = link.depends_on
    AND letter.state = 'OPEN' AND letter.next_redrive_at IS NOT NULL
    AND other.state IN ('EXHAUSTED', 'IGNORED', 'ARCHIVED')
