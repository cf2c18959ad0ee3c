-- name: live
SELECT sum(number) FROM redrive.dead_letter_counts WHERE org = :org AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
