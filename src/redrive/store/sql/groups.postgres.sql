-- name: _has_letters
-- Each change of a count is a row. The rows of one state are read together by an index.
fingerprint IN (SELECT fingerprint FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = :org AND counted.state IN ({states})
    GROUP BY fingerprint HAVING sum(number) > 0)

-- name: _has_unscheduled
-- As _has_letters.
(fingerprint IN (SELECT fingerprint FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = :org AND counted.state = 'OPEN' AND redrive = 'never'
    GROUP BY fingerprint HAVING sum(number) > 0)
    OR {_has_left} OR {_has_stuck})

-- name: _left
-- PostgreSQL chooses the right index without help; SQLite would choose the one of all dead letters of a failure.
redrive.dead_letters AS letter
