-- name: count_ended
-- Changes are added as rows of their own: see the triggers. One round trip for the whole batch.
INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, 'ended', state, CAST(floor(:now / 300) AS bigint) * 300, number
FROM unnest(CAST(:org AS text[]), CAST(:state AS text[]), CAST(:number AS bigint[])) AS batch (org, state, number)

-- name: occurred
-- One round trip for the whole batch.
SELECT subject, {_place}, number FROM redrive.tallies
WHERE org = :org AND figure = 'occurred' AND subject = ANY (CAST(:fingerprint AS text[]))
    AND bucket >= CAST(:start AS bigint)

-- name: sum_up
-- SQLite keeps one row a key by itself. Only what was added lately is looked at: more than that is hardly ever added.
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
-- Rows have no key; SKIP LOCKED: those that somebody sums up are left to them.
DELETE FROM redrive.tallies
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM redrive.tallies WHERE bucket > 0 AND bucket < CAST(:now - :age AS bigint)
    LIMIT :most
    FOR UPDATE SKIP LOCKED))
RETURNING bucket
