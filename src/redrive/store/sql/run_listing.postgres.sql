-- name: _over
-- SQLite has no lateral joins, and PostgreSQL would compare all runs with the ones that were found.
SELECT found.id, found.submitted_at FROM over_keys
JOIN redrive.runs AS key ON key.id = over_keys.id
CROSS JOIN LATERAL ({_own_over}) AS found
WHERE {keys}

-- name: _idle
-- As _over.
SELECT found.id, found.submitted_at FROM idle_keys
JOIN redrive.runs AS key ON key.id = idle_keys.id
CROSS JOIN LATERAL ({_own_idle}) AS found
WHERE {keys}
