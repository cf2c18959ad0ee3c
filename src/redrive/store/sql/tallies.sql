-- name: count_ended
INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
VALUES (:org, 'ended', :state, CAST(floor(:now / 300) AS bigint) * 300, :number)
ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = tallies.number + excluded.number

-- name: standing
SELECT subject, CAST(sum(number) AS bigint) FROM redrive.tallies
WHERE org = :org AND figure = 'standing' AND bucket = 0
GROUP BY subject
UNION ALL
SELECT 'STUCK', count(DISTINCT stuck.id) FROM ({_stuck}) AS stuck WHERE stuck.org = :org
HAVING count(DISTINCT stuck.id) > 0

-- name: _place
(bucket - CAST(:start AS bigint)) / CAST(:width AS bigint)

-- name: flow
SELECT figure, subject, place, CAST(sum(number) AS bigint) FROM (
    SELECT figure, subject, {_place} AS place, number FROM redrive.tallies
    WHERE org = :org AND figure IN ('came', 'left', 'replayed', 'replay_failed') AND subject = ''
        AND bucket >= CAST(:start AS bigint)
    UNION ALL
    SELECT figure, subject, {_place}, number FROM redrive.tallies
    WHERE org = :org AND figure = 'ended'
        AND subject IN ('SUCCESS', 'PARTIAL', 'FAILED', 'DLQ_PENDING', 'CANCELLED') AND bucket >= CAST(:start AS bigint)
) AS placed
GROUP BY figure, subject, place

-- name: occurred
SELECT subject, {_place}, number FROM redrive.tallies
JOIN {batch:FingerprintSpan only fingerprint} ON subject = batch.fingerprint
WHERE org = :org AND figure = 'occurred' AND bucket >= CAST(:start AS bigint)

-- name: sum_up
DELETE FROM redrive.tallies WHERE bucket = 0 AND number = 0

-- name: remove_expired
DELETE FROM redrive.tallies WHERE (org, figure, subject, bucket) IN (
    SELECT org, figure, subject, bucket FROM redrive.tallies
    WHERE bucket > 0 AND bucket < CAST(:now - :age AS bigint)
    LIMIT :most
)
RETURNING bucket
