-- name: _has_letters
-- Changes of counts are rows of their own, and all of one state are read at once, along an index.
fingerprint IN (SELECT fingerprint FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = :org AND counted.state IN ({states})
    GROUP BY fingerprint HAVING sum(number) > 0)

-- name: _has_unscheduled
-- As above.
(fingerprint IN (SELECT fingerprint FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = :org AND counted.state = 'OPEN' AND redrive = 'never'
    GROUP BY fingerprint HAVING sum(number) > 0)
    OR {_has_left})

-- name: _left
-- PostgreSQL finds the index by itself; SQLite takes the one of all letters of a failure.
redrive.dead_letters AS letter
