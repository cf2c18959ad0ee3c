-- name: due
-- PostgreSQL has different JSON functions.
SELECT id, org, run_id, step_index FROM (
    SELECT letter.id, letter.org, letter.run_id, letter.step_index, letter.priority, letter.created_at
    FROM redrive.dead_letters AS letter JOIN {_ended_runs} AS run ON run.id = letter.run_id
    WHERE {_due} AND {_no_dependency}
        AND (CAST(:queue AS text) IS NULL OR letter.queue = :queue)
        AND (letter.breaker IS NULL
            OR letter.breaker NOT IN (SELECT json_array_elements_text(CAST(:open AS json))))
        AND (letter.redrive NOT LIKE 'custom:%'
            OR letter.redrive IN (SELECT json_array_elements_text(CAST(:known AS json))))
    ORDER BY letter.next_redrive_at
    LIMIT :most
) AS due
ORDER BY priority DESC, created_at, id

-- name: archive
-- SKIP LOCKED, so that processors do not wait for each other.
WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.dead_letters
    WHERE state = 'EXHAUSTED' AND exhausted_at < :now - CAST(:age AS double precision)
        AND (CAST(:queue AS text) IS NULL OR queue = :queue)
    ORDER BY exhausted_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.dead_letters
SET state = 'ARCHIVED', resolved_by = :by, resolved_at = :now, resolution = :reason, updated_at = :now
FROM picked WHERE id = picked_id
RETURNING org, id

-- name: counts
-- A parameter that may be NULL needs an explicit type, and sums have another type.
SELECT org, state, category, redrive, CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts
WHERE (CAST(:org AS text) IS NULL OR org = :org) AND (CAST(:queue AS text) IS NULL OR queue = :queue)
GROUP BY org, state, category, redrive HAVING sum(number) <> 0
ORDER BY org, state, category, redrive

-- name: figures
-- Types, as in counts.
SELECT org, figure, CAST(sum(number) AS bigint) FROM redrive.dead_letter_figures
WHERE (CAST(:org AS text) IS NULL OR org = :org) AND (CAST(:queue AS text) IS NULL OR queue = :queue)
GROUP BY org, figure
