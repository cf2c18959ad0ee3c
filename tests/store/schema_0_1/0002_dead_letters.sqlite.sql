CREATE TRIGGER dead_letters_inserted AFTER INSERT ON dead_letters
BEGIN
    INSERT INTO dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    VALUES (NEW.org, NEW.fingerprint, NEW.queue, NEW.category, NEW.redrive, NEW.state, 1)
    ON CONFLICT (org, fingerprint, queue, category, redrive, state) DO UPDATE SET number = number + 1
    ; INSERT INTO dead_letter_figures (org, queue, figure, number) VALUES (NEW.org, NEW.queue, 'enqueued_total', 1)
    ON CONFLICT (org, queue, figure) DO UPDATE SET number = number + 1
    ; END;

CREATE TRIGGER dead_letters_deleted AFTER DELETE ON dead_letters
BEGIN
    UPDATE dead_letter_counts SET number = number - 1
    WHERE org = OLD.org AND fingerprint = OLD.fingerprint AND queue = OLD.queue AND category = OLD.category
        AND redrive = OLD.redrive AND state = OLD.state
    ; END;

CREATE TRIGGER dead_letters_moved AFTER UPDATE ON dead_letters
WHEN OLD.state <> NEW.state OR OLD.org <> NEW.org OR OLD.fingerprint <> NEW.fingerprint OR OLD.category <> NEW.category
    OR OLD.redrive <> NEW.redrive OR OLD.queue <> NEW.queue
BEGIN
    UPDATE dead_letter_counts SET number = number - 1
    WHERE org = OLD.org AND fingerprint = OLD.fingerprint AND queue = OLD.queue AND category = OLD.category
        AND redrive = OLD.redrive AND state = OLD.state
    ; INSERT INTO dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    VALUES (NEW.org, NEW.fingerprint, NEW.queue, NEW.category, NEW.redrive, NEW.state, 1)
    ON CONFLICT (org, fingerprint, queue, category, redrive, state) DO UPDATE SET number = number + 1
    ; INSERT INTO dead_letter_figures (org, queue, figure, number)
    SELECT NEW.org, NEW.queue, figure, 1 FROM (
        SELECT 'retry_success' AS figure WHERE OLD.state = 'REPLAYING' AND NEW.state = 'RESOLVED'
        UNION ALL SELECT 'retry_failed' WHERE OLD.state = 'REPLAYING' AND NEW.state IN ('OPEN', 'EXHAUSTED')
        UNION ALL SELECT 'exhausted' WHERE OLD.state <> 'EXHAUSTED' AND NEW.state = 'EXHAUSTED'
        UNION ALL SELECT 'archived' WHERE OLD.state <> 'ARCHIVED' AND NEW.state = 'ARCHIVED'
        UNION ALL SELECT 'manually_retried'
            WHERE OLD.state <> 'REPLAYING' AND NEW.state = 'REPLAYING' AND NEW.redrives = OLD.redrives
    ) WHERE true
    ON CONFLICT (org, queue, figure) DO UPDATE SET number = number + 1
    ; END;
