-- How much of what happened when. A bucket is named by the second it begins with: 300 of them long, and an hour for
-- what has occurred, by fingerprint. What stands now has bucket 0.

CREATE TABLE redrive.tallies (
    org text NOT NULL,
    figure text NOT NULL,
    subject text NOT NULL,
    bucket bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (org, figure, subject, bucket)
);
CREATE INDEX tallies_by_time ON redrive.tallies (bucket);

INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, 'standing', CASE WHEN state = 'OPEN' AND next_redrive_at IS NOT NULL THEN 'SCHEDULED' ELSE state END, 0,
    count(*)
FROM redrive.dead_letters WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
GROUP BY 1, 3;

-- Of the last eight days there were.

INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, 'came', '', CAST(floor(created_at / 300) AS bigint) * 300, count(*) FROM redrive.dead_letters
WHERE created_at > (SELECT max(created_at) FROM redrive.dead_letters) - 691200
GROUP BY 1, 4;

INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, 'occurred', fingerprint, CAST(floor(created_at / 3600) AS bigint) * 3600, count(*) FROM redrive.dead_letters
WHERE created_at > (SELECT max(created_at) FROM redrive.dead_letters) - 691200
GROUP BY 1, 3, 4;

INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, 'left', '', CAST(floor(updated_at / 300) AS bigint) * 300, count(*) FROM redrive.dead_letters
WHERE state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')
    AND updated_at > (SELECT max(updated_at) FROM redrive.dead_letters) - 691200
GROUP BY 1, 4;

INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, CASE WHEN state = 'SUCCEEDED' THEN 'replayed' ELSE 'replay_failed' END, '',
    CAST(floor(ended_at / 300) AS bigint) * 300, count(*)
FROM redrive.replays
WHERE state IN ('SUCCEEDED', 'FAILED') AND ended_at > (SELECT max(ended_at) FROM redrive.replays) - 691200
GROUP BY 1, 2, 4;

INSERT INTO redrive.tallies (org, figure, subject, bucket, number)
SELECT org, 'ended', state, CAST(floor(ended_at / 300) AS bigint) * 300, count(*) FROM redrive.runs
WHERE place = 'ended' AND ended_at > (SELECT max(ended_at) FROM redrive.runs) - 691200
GROUP BY 1, 3, 4;
