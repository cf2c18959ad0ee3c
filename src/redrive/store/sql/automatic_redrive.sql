-- name: _due
letter.state = 'OPEN' AND letter.next_redrive_at <= :now AND {_has_ended}
    AND run.state IN ('DLQ_PENDING', 'FAILED') AND run.step_index = letter.step_index

-- name: _no_dependency
NOT EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = letter.id AND other.state <> 'RESOLVED'
    )

-- name: due
SELECT id, org, run_id, step_index FROM (
    SELECT letter.id, letter.org, letter.run_id, letter.step_index, letter.priority, letter.created_at
    FROM redrive.dead_letters AS letter JOIN {_ended_runs} AS run ON run.id = letter.run_id
    WHERE {_due} AND {_no_dependency}
        AND (:queue IS NULL OR letter.queue = :queue)
        AND (letter.breaker IS NULL OR letter.breaker NOT IN (SELECT value FROM json_each(:open)))
        AND (letter.redrive NOT LIKE 'custom:%' OR letter.redrive IN (SELECT value FROM json_each(:known)))
    ORDER BY letter.next_redrive_at
    LIMIT :most
) AS due
ORDER BY priority DESC, created_at, id

-- name: next_due
SELECT min(next_redrive_at) - :now FROM redrive.dead_letters WHERE state = 'OPEN' AND next_redrive_at > :now

-- name: lock_due
-- SKIP LOCKED: another transaction is redriving or changing a locked dead letter.
SELECT letter.id
FROM redrive.dead_letters AS letter JOIN {_ended_runs} AS run ON run.id = letter.run_id
JOIN {batch:Due only letter_id} ON letter.id = batch.letter_id
WHERE {_due} AND {_no_dependency}
FOR UPDATE OF run, letter SKIP LOCKED

-- name: archive
UPDATE redrive.dead_letters
SET state = 'ARCHIVED', resolved_by = :by, resolved_at = :now, resolution = :reason, updated_at = :now
WHERE id IN (
    SELECT id FROM redrive.dead_letters
    WHERE state = 'EXHAUSTED' AND exhausted_at < :now - :age AND (:queue IS NULL OR queue = :queue)
    ORDER BY exhausted_at
    LIMIT :most
)
RETURNING org, id

-- name: counts
SELECT org, state, category, redrive, sum(number) FROM redrive.dead_letter_counts
WHERE (:org IS NULL OR org = :org) AND (:queue IS NULL OR queue = :queue)
GROUP BY org, state, category, redrive HAVING sum(number) <> 0
ORDER BY org, state, category, redrive

-- name: figures
SELECT org, figure, sum(number) FROM redrive.dead_letter_figures
WHERE (:org IS NULL OR org = :org) AND (:queue IS NULL OR queue = :queue)
GROUP BY org, figure

-- name: heartbeat
INSERT INTO redrive.processors (id, queue, state, interval_seconds, started_at, seen_at, redriven)
VALUES (:id, :queue, :state, :interval, :now, :now, :redriven)
ON CONFLICT (id) DO UPDATE
SET state = excluded.state, interval_seconds = excluded.interval_seconds, seen_at = :now, redriven = excluded.redriven

-- name: processors
SELECT {columns:ProcessorRow except now}, :now FROM redrive.processors
ORDER BY started_at, id

-- name: forget_processors
DELETE FROM redrive.processors WHERE seen_at < :now - :age
