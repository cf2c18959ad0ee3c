-- name: count_gone
-- Changes are added as rows of their own: see the triggers.
INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT CAST(:org AS text), 'left', '', CAST(floor(:now / 300) AS bigint) * 300, count(*) {_gone}
    AND letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
HAVING count(*) > 0
