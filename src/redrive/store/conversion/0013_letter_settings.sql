-- A dead letter refers to its attempt and to the settings of its step, instead of copying both. Many letters share their
-- settings.
CREATE TABLE redrive.dead_letter_settings (
    org text NOT NULL,
    digest text NOT NULL,
    config text NOT NULL,
    policy text NOT NULL,
    PRIMARY KEY (org, digest)
);

INSERT INTO redrive.dead_letter_settings (org, digest, config, policy)
SELECT org, min(id), config, policy FROM redrive.dead_letters GROUP BY org, config, policy;

ALTER TABLE redrive.dead_letters ADD COLUMN settings text NOT NULL DEFAULT '';
UPDATE redrive.dead_letters SET settings = (
    SELECT known.digest FROM redrive.dead_letter_settings AS known
    WHERE known.org = redrive.dead_letters.org AND known.config = redrive.dead_letters.config
        AND known.policy = redrive.dead_letters.policy
);

ALTER TABLE redrive.dead_letters DROP COLUMN stack;
ALTER TABLE redrive.dead_letters DROP COLUMN public_message;
ALTER TABLE redrive.dead_letters DROP COLUMN explanation;
ALTER TABLE redrive.dead_letters DROP COLUMN config;
ALTER TABLE redrive.dead_letters DROP COLUMN policy;
