-- name: count_refused
-- Each change of a counter is inserted as a row: see the triggers.
INSERT INTO redrive.dead_letter_figures (org, queue, figure, number) VALUES (:org, :queue, 'refused', :number)

-- name: sum_up_counts
-- SQLite keeps one row per key without it.
WITH several AS (
    DELETE FROM redrive.dead_letter_counts
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.dead_letter_counts
        WHERE (org, fingerprint, queue, category, redrive, state) IN (
            SELECT org, fingerprint, queue, category, redrive, state FROM redrive.dead_letter_counts
            GROUP BY org, fingerprint, queue, category, redrive, state HAVING count(*) > 1)
        FOR UPDATE SKIP LOCKED))
    RETURNING org, fingerprint, queue, category, redrive, state, number
)
INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
SELECT org, fingerprint, queue, category, redrive, state, sum(number) FROM several
GROUP BY org, fingerprint, queue, category, redrive, state HAVING sum(number) <> 0

-- name: sum_up_figures
-- As sum_up_counts: one row per key.
WITH several AS (
    DELETE FROM redrive.dead_letter_figures
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.dead_letter_figures
        WHERE (org, queue, figure) IN (
            SELECT org, queue, figure FROM redrive.dead_letter_figures GROUP BY org, queue, figure HAVING count(*) > 1)
        FOR UPDATE SKIP LOCKED))
    RETURNING org, queue, figure, number
)
INSERT INTO redrive.dead_letter_figures (org, queue, figure, number)
SELECT org, queue, figure, sum(number) FROM several GROUP BY org, queue, figure
