-- As the counts of dead letters: changes are added, and workers sum them up now and then.
ALTER TABLE redrive.tallies DROP CONSTRAINT tallies_pkey;
CREATE INDEX tallies_of_subject ON redrive.tallies (org, figure, subject, bucket);

ALTER TABLE redrive.tallies ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.tallies USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

CREATE FUNCTION redrive.dead_letters_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
    SELECT org, 'came', '', CAST(floor(created_at / 300) AS bigint) * 300, count(*) FROM new_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 4
    UNION ALL
    SELECT org, 'occurred', fingerprint, CAST(floor(created_at / 3600) AS bigint) * 3600, count(*) FROM new_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3, 4
    UNION ALL
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        count(*) FROM new_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_came AFTER INSERT ON redrive.dead_letters
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_came();

CREATE FUNCTION redrive.dead_letters_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        -count(*) FROM old_rows
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_gone AFTER DELETE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_gone();

CREATE FUNCTION redrive.dead_letters_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        sum(change)
    FROM (
        SELECT org, state, next_redrive_at, -1 AS change FROM old_rows
        UNION ALL SELECT org, state, next_redrive_at, 1 FROM new_rows
    ) AS changes
    WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') GROUP BY 1, 3 HAVING sum(change) <> 0
    UNION ALL
    SELECT now.org, figure, '', CAST(floor(now.updated_at / 300) AS bigint) * 300, count(*)
    FROM new_rows AS now JOIN old_rows AS past ON past.id = now.id
    CROSS JOIN (VALUES ('came'), ('left'), ('replayed'), ('replay_failed')) AS figures (figure)
    WHERE past.state <> now.state AND CASE figure
        WHEN 'came' THEN past.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
            AND now.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
        WHEN 'left' THEN past.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
            AND now.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
        ELSE past.state = 'REPLAYING' AND now.state IN ('RESOLVED', 'OPEN', 'EXHAUSTED')
            AND figure = CASE WHEN now.resolution = 'replayed' THEN 'replayed' ELSE 'replay_failed' END END
    GROUP BY 1, 2, 4
    ; RETURN NULL
    ; END $$;

CREATE TRIGGER dead_letters_changed AFTER UPDATE ON redrive.dead_letters
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redrive.dead_letters_changed();
