-- name: _over
-- Joined to the keys that are wanted, all runs would be compared with them; these are read for each of them.
SELECT found.id, found.submitted_at FROM ({_wanted_over}) AS wanted
CROSS JOIN LATERAL (SELECT id, submitted_at FROM redrive.runs WHERE {_of_over} AND {rows} {_newest}) AS found

-- name: _idle
-- As _over.
SELECT found.id, found.submitted_at FROM ({_wanted_idle}) AS wanted
CROSS JOIN LATERAL (SELECT id, submitted_at FROM redrive.runs WHERE {_of_idle} AND {rows} {_newest}) AS found

-- name: _over_all
-- As _over.
{_over}

-- name: _idle_all
-- As _over.
{_idle}

-- name: _held
-- As _over.
WITH RECURSIVE {_idle_keys}
SELECT held_by, count(*) FROM (
    SELECT found.held_by FROM ({_wanted_idle}) AS wanted
    CROSS JOIN LATERAL (SELECT held_by FROM redrive.runs WHERE {_of_idle} LIMIT :most) AS found
    LIMIT :most
) AS held
WHERE held_by IS NOT NULL
GROUP BY held_by
