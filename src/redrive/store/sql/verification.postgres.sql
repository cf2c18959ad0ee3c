-- name: misplaced
-- A run is two rows: its input, and its work, which moves between tables and must be in exactly one of them.
SELECT COALESCE(given.id, work.id) AS id, count(work.id) AS places, count(DISTINCT given.id) AS inputs FROM (
    SELECT id FROM redrive.ready
    UNION ALL SELECT id FROM redrive.idle
    UNION ALL SELECT id FROM redrive.leases
    UNION ALL SELECT id FROM redrive.ended
) AS work
FULL JOIN redrive.run_inputs AS given ON given.id = work.id
GROUP BY 1
HAVING count(work.id) <> 1 OR count(given.id) <> 1
LIMIT :most
