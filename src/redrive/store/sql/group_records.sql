-- name: _record
SELECT batch.fingerprint,
    COALESCE((SELECT CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts AS counted
        WHERE counted.org = :org AND counted.fingerprint = batch.fingerprint AND counted.state = 'OPEN'
            AND redrive <> 'never'), 0)
    - (SELECT count(*) FROM {_left}
        WHERE letter.org = :org AND letter.fingerprint = batch.fingerprint AND letter.state = 'OPEN'
            AND redrive <> 'never' AND next_redrive_at IS NULL),
    (SELECT count(*) FROM (
        SELECT 1 FROM redrive.replays AS replay
        WHERE replay.org = :org AND replay.fingerprint = batch.fingerprint AND replay.state = 'SUCCEEDED'
        LIMIT :most
    ) AS succeeded),
    (SELECT count(*) FROM (
        SELECT 1 FROM redrive.replays AS replay
        WHERE replay.org = :org AND replay.fingerprint = batch.fingerprint AND replay.state = 'FAILED'
        LIMIT :most
    ) AS failed)

-- name: _left
redrive.dead_letters AS letter INDEXED BY dead_letters_left

-- name: records
{_record} FROM {batch:GroupKey only fingerprint}

-- name: spread
SELECT state, queue, CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts
WHERE org = :org AND fingerprint = :fingerprint
    AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED', 'RESOLVED', 'IGNORED', 'ARCHIVED')
GROUP BY state, queue HAVING sum(number) > 0
ORDER BY state, queue
