-- name: count_ended
-- Each change of a tally is inserted as a row: see the triggers.
INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT batch.org, 'ended', batch.state, CAST(floor(:now / 300) AS bigint) * 300, batch.number
FROM {batch:EndedRuns}

-- name: sum_up
-- SQLite keeps one row per key without it. Only recent buckets are compacted: rows are rarely added to older ones.
WITH several AS (
    DELETE FROM redrive.tallies
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.tallies
        WHERE (bucket = 0 OR bucket > CAST(:now AS bigint) - 7200) AND (org, figure, subject, bucket) IN (
            SELECT org, figure, subject, bucket FROM redrive.tallies
            WHERE bucket = 0 OR bucket > CAST(:now AS bigint) - 7200
            GROUP BY org, figure, subject, bucket HAVING count(*) > 1)
        FOR UPDATE SKIP LOCKED))
    RETURNING org, figure, subject, bucket, number
)
INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, figure, subject, bucket, sum(number) FROM several
GROUP BY org, figure, subject, bucket HAVING sum(number) <> 0

-- name: remove_expired
-- Rows have no key. SKIP LOCKED: another process is compacting locked rows.
DELETE FROM redrive.tallies
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM redrive.tallies WHERE bucket > 0 AND bucket < CAST(:now - :age AS bigint)
    LIMIT :most
    FOR UPDATE SKIP LOCKED))
RETURNING bucket
