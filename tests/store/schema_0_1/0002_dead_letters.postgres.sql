-- Changes are added, not written into one row: nobody waits for anybody. Workers sum them up now and then.
ALTER TABLE redrive.dead_letter_counts DROP CONSTRAINT dead_letter_counts_pkey;
CREATE INDEX dead_letter_counts_of_failure ON redrive.dead_letter_counts (org, fingerprint);
ALTER TABLE redrive.dead_letter_figures DROP CONSTRAINT dead_letter_figures_pkey;

CREATE FUNCTION redrive.dead_letters_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    SELECT org, fingerprint, queue, category, redrive, state, count(*) FROM new_rows
    GROUP BY 1, 2, 3, 4, 5, 6
    ; INSERT INTO redrive.dead_letter_figures (org, queue, figure, number)
    SELECT org, queue, 'enqueued_total', count(*) FROM new_rows GROUP BY 1, 2
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_inserted AFTER INSERT ON redrive.dead_letters
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_inserted();

CREATE FUNCTION redrive.dead_letters_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    SELECT org, fingerprint, queue, category, redrive, state, -count(*) FROM old_rows
    GROUP BY 1, 2, 3, 4, 5, 6
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_deleted AFTER DELETE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_deleted();

CREATE FUNCTION redrive.dead_letters_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    SELECT org, fingerprint, queue, category, redrive, state, sum(change) FROM (
        SELECT org, fingerprint, queue, category, redrive, state, -1 AS change FROM old_rows
        UNION ALL SELECT org, fingerprint, queue, category, redrive, state, 1 FROM new_rows
    ) AS changes
    GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(change) <> 0
    ; INSERT INTO redrive.dead_letter_figures (org, queue, figure, number)
    SELECT now.org, now.queue, figure, count(*)
    FROM new_rows AS now JOIN old_rows AS past ON past.id = now.id
    CROSS JOIN (VALUES ('retry_success'), ('retry_failed'), ('exhausted'), ('archived'), ('manually_retried'))
        AS figures (figure)
    WHERE past.state <> now.state AND CASE figure
        WHEN 'retry_success' THEN past.state = 'REPLAYING' AND now.state = 'RESOLVED'
        WHEN 'retry_failed' THEN past.state = 'REPLAYING' AND now.state IN ('OPEN', 'EXHAUSTED')
        WHEN 'exhausted' THEN now.state = 'EXHAUSTED'
        WHEN 'archived' THEN now.state = 'ARCHIVED'
        ELSE now.state = 'REPLAYING' AND now.redrives = past.redrives END
    GROUP BY 1, 2, 3
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_moved AFTER UPDATE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_moved();
