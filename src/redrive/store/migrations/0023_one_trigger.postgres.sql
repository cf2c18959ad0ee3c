-- One trigger counts an update of dead letters: it joins the old rows with the new ones once, and adds up the changes once.
--
-- A session keeps the plan that it made for its first update. If that update was of one dead letter, the two triggers before
-- compared each row of every later batch with the whole batch: 500 dead letters took five times as long. So the function
-- does not allow that plan.
CREATE FUNCTION redrive.dead_letters_updated() RETURNS trigger LANGUAGE plpgsql SET enable_nestloop = off AS $$
BEGIN
    WITH moves AS MATERIALIZED (
        SELECT past.org AS past_org, past.fingerprint AS past_fingerprint, past.queue AS past_queue,
            past.category AS past_category, past.redrive AS past_redrive, past.state AS past_state,
            past.next_redrive_at IS NOT NULL AS was_scheduled, now.org, now.fingerprint, now.queue, now.category,
            now.redrive, now.state, now.next_redrive_at IS NOT NULL AS is_scheduled,
            now.redrives = past.redrives AS by_hand, now.resolution IS NOT DISTINCT FROM 'replayed' AS replayed,
            CAST(floor(now.updated_at / 300) AS bigint) * 300 AS bucket, count(*) AS number
        FROM new_rows AS now JOIN old_rows AS past ON past.id = now.id
        WHERE past.state <> now.state OR (past.next_redrive_at IS NULL) <> (now.next_redrive_at IS NULL)
            OR past.redrive <> now.redrive OR past.fingerprint <> now.fingerprint OR past.category <> now.category
            OR past.queue <> now.queue OR past.org <> now.org
        GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
    ), counts AS (
        INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
        SELECT org, fingerprint, queue, category, redrive, state, sum(change) FROM (
            SELECT past_org AS org, past_fingerprint AS fingerprint, past_queue AS queue, past_category AS category,
                past_redrive AS redrive, past_state AS state, -number AS change FROM moves
            UNION ALL SELECT org, fingerprint, queue, category, redrive, state, number FROM moves
        ) AS changes
        GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(change) <> 0
    ), figures AS (
        INSERT INTO redrive.dead_letter_figures (org, queue, figure, number)
        SELECT org, queue, figure, sum(number)
        FROM moves CROSS JOIN (VALUES ('retry_success'), ('retry_failed'), ('exhausted'), ('archived'),
            ('manually_retried')) AS figures (figure)
        WHERE past_state <> state AND CASE figure
            WHEN 'retry_success' THEN past_state = 'REPLAYING' AND state = 'RESOLVED'
            WHEN 'retry_failed' THEN past_state = 'REPLAYING' AND state IN ('OPEN', 'EXHAUSTED')
            WHEN 'exhausted' THEN state = 'EXHAUSTED'
            WHEN 'archived' THEN state = 'ARCHIVED'
            ELSE state = 'REPLAYING' AND by_hand END
        GROUP BY 1, 2, 3
    )
    INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND scheduled THEN 'SCHEDULED' ELSE state END, 0, sum(change)
    FROM (
        SELECT past_org AS org, past_state AS state, was_scheduled AS scheduled, -number AS change FROM moves
        UNION ALL SELECT org, state, is_scheduled, number FROM moves
    ) AS changes
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3 HAVING sum(change) <> 0
    UNION ALL
    SELECT org, figure, '', bucket, sum(number)
    FROM moves CROSS JOIN (VALUES ('came'), ('left'), ('replayed'), ('replay_failed')) AS figures (figure)
    WHERE past_state <> state AND CASE figure
        WHEN 'came' THEN past_state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
            AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
        WHEN 'left' THEN past_state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
            AND state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
        ELSE past_state = 'REPLAYING' AND state IN ('RESOLVED', 'OPEN', 'EXHAUSTED')
            AND figure = CASE WHEN replayed THEN 'replayed' ELSE 'replay_failed' END END
    GROUP BY 1, 2, 4
    ; RETURN NULL
    ; END $$;

DROP TRIGGER dead_letters_moved ON redrive.dead_letters;
DROP TRIGGER dead_letters_changed ON redrive.dead_letters;
DROP FUNCTION redrive.dead_letters_moved();
DROP FUNCTION redrive.dead_letters_changed();

CREATE TRIGGER dead_letters_updated AFTER UPDATE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_updated();
