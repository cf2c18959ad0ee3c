-- Open letters that no automatic redrive will come for although their policy has some, such as reopened ones: few. Lists
-- of failure groups ask whether a failure has one.
CREATE INDEX dead_letters_left ON redrive.dead_letters (org, fingerprint)
    WHERE state = 'OPEN' AND redrive <> 'never' AND next_redrive_at IS NULL;
