CREATE TRIGGER dead_letters_came AFTER INSERT ON dead_letters WHEN NEW.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
BEGIN
    INSERT INTO tallies (org, figure, subject, bucket, number)
    VALUES (NEW.org, 'came', '', CAST(NEW.created_at AS integer) / 300 * 300, 1),
        (NEW.org, 'occurred', NEW.fingerprint, CAST(NEW.created_at AS integer) / 3600 * 3600, 1),
        (NEW.org, 'standing',
            CASE WHEN NEW.state = 'OPEN' AND NEW.next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE NEW.state END, 0, 1)
    ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = number + 1
    ; END;

CREATE TRIGGER dead_letters_gone AFTER DELETE ON dead_letters WHEN OLD.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
BEGIN
    UPDATE tallies SET number = number - 1
    WHERE org = OLD.org AND figure = 'standing' AND bucket = 0 AND subject =
        CASE WHEN OLD.state = 'OPEN' AND OLD.next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE OLD.state END
    ; END;

CREATE TRIGGER dead_letters_changed AFTER UPDATE ON dead_letters
WHEN OLD.state <> NEW.state OR (OLD.next_redrive_at IS NULL) <> (NEW.next_redrive_at IS NULL) OR OLD.org <> NEW.org
BEGIN
    INSERT INTO tallies (org, figure, subject, bucket, number)
    SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
        change
    FROM (
        SELECT OLD.org AS org, OLD.state AS state, OLD.next_redrive_at AS next_redrive_at, -1 AS change
        UNION ALL SELECT NEW.org, NEW.state, NEW.next_redrive_at, 1
    ) WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
    ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = number + excluded.number
    ; INSERT INTO tallies (org, figure, subject, bucket, number)
    SELECT NEW.org, figure, '', CAST(NEW.updated_at AS integer) / 300 * 300, 1 FROM (
        SELECT 'came' AS figure WHERE OLD.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
            AND NEW.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
        UNION ALL SELECT 'left' WHERE OLD.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
            AND NEW.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
        UNION ALL SELECT CASE WHEN NEW.resolution = 'replayed' THEN 'replayed' ELSE 'replay_failed' END
            WHERE OLD.state = 'REPLAYING' AND NEW.state IN ('RESOLVED', 'OPEN', 'EXHAUSTED')
    ) WHERE true
    ON CONFLICT (org, figure, subject, bucket) DO UPDATE SET number = number + 1
    ; END;
