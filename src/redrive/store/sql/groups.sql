-- name: occur
INSERT INTO redrive.failure_groups AS known ({columns:GroupOccurrences}, state, first_seen, last_seen)
SELECT {columns:GroupOccurrences batch}, 'OPEN', :now, :now
FROM {batch:GroupOccurrences}
{_again}

-- name: _again
ON CONFLICT (org, fingerprint) DO UPDATE
SET title = excluded.title, pattern = excluded.pattern, reason = excluded.reason, workflow = excluded.workflow, step = excluded.step,
    task = excluded.task, category = excluded.category, error_type = excluded.error_type, sample = excluded.sample,
    occurrences = known.occurrences + excluded.occurrences,
    last_seen = CASE WHEN known.last_seen > excluded.last_seen THEN known.last_seen ELSE excluded.last_seen END
RETURNING org, fingerprint, state, occurrences, ignored_until, ignored_beyond, ignored_version, :now

-- name: occur_in_version
INSERT INTO redrive.failure_group_versions AS known ({columns:VersionOccurrences}, first_seen, last_seen)
SELECT {columns:VersionOccurrences batch}, :now, :now
FROM {batch:VersionOccurrences}
{_version_again}

-- name: _version_again
ON CONFLICT (org, fingerprint, code_version) DO UPDATE
SET occurrences = known.occurrences + excluded.occurrences,
    last_seen = CASE WHEN known.last_seen > excluded.last_seen THEN known.last_seen ELSE excluded.last_seen END

-- name: come_back
UPDATE redrive.failure_groups AS known
SET state = 'OPEN', regressed_at = CASE WHEN batch.regressed = 1 THEN :now ELSE regressed_at END,
    ignored_until = NULL, ignored_beyond = NULL, ignored_version = NULL,
    changed_by = CAST(:by AS text), changed_at = :now, change_reason = batch.reason
FROM {batch:ReopenedGroup only org, fingerprint, before, reason, regressed}
WHERE known.org = batch.org AND known.fingerprint = batch.fingerprint AND known.state = batch.before
RETURNING known.org, known.fingerprint

-- name: _letters
CAST(COALESCE((SELECT sum(number) FROM redrive.dead_letter_counts AS counted
        WHERE counted.org = page.org AND counted.fingerprint = page.fingerprint AND counted.state = 'OPEN'), 0)
        AS bigint),
    CAST(COALESCE((SELECT sum(number) FROM redrive.dead_letter_counts AS counted
        WHERE counted.org = page.org AND counted.fingerprint = page.fingerprint AND counted.state = 'REPLAYING'), 0)
        AS bigint),
    CAST(COALESCE((SELECT sum(number) FROM redrive.dead_letter_counts AS counted
        WHERE counted.org = page.org AND counted.fingerprint = page.fingerprint AND counted.state = 'EXHAUSTED'), 0)
        AS bigint),
    CAST(COALESCE((SELECT sum(number) FROM redrive.dead_letter_counts AS counted
        WHERE counted.org = page.org AND counted.fingerprint = page.fingerprint
            AND counted.state IN ('RESOLVED', 'IGNORED', 'ARCHIVED')), 0)
        AS bigint)

-- name: _has_letters
EXISTS (SELECT 1 FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = failure_groups.org AND counted.fingerprint = failure_groups.fingerprint
        AND counted.state IN ({states}) AND number > 0)

-- name: _has_scheduled
(EXISTS (SELECT 1 FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = failure_groups.org AND counted.fingerprint = failure_groups.fingerprint
        AND counted.state = 'OPEN' AND redrive <> 'never' AND number > 0)
    AND EXISTS (SELECT 1 FROM redrive.dead_letters AS letter
        WHERE letter.org = failure_groups.org AND letter.fingerprint = failure_groups.fingerprint
            AND letter.state = 'OPEN' AND next_redrive_at IS NOT NULL
            AND letter.id NOT IN (SELECT stuck.id FROM ({_stuck}) AS stuck WHERE stuck.org = :org)))

-- name: _has_stuck
fingerprint IN (SELECT stuck.fingerprint FROM ({_stuck}) AS stuck WHERE stuck.org = :org)

-- name: _has_left
EXISTS (SELECT 1 FROM redrive.dead_letters AS letter
    WHERE letter.org = failure_groups.org AND letter.fingerprint = failure_groups.fingerprint
        AND letter.state = 'OPEN' AND redrive <> 'never' AND next_redrive_at IS NULL)

-- name: _has_unscheduled
(EXISTS (SELECT 1 FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = failure_groups.org AND counted.fingerprint = failure_groups.fingerprint
        AND counted.state = 'OPEN' AND redrive = 'never' AND number > 0)
    OR {_has_left} OR {_has_stuck})

-- name: _after
({sort}, fingerprint) < (:last_value, :last_fingerprint)

-- name: _branch
SELECT fingerprint, {sort} FROM (
    SELECT fingerprint, {sort} FROM redrive.failure_groups WHERE {where}
    ORDER BY {sort} DESC, fingerprint DESC LIMIT :most
) AS branch

-- name: _page
SELECT {columns:FailureGroup}, :now, {_letters} FROM redrive.failure_groups AS page
WHERE org = :org AND fingerprint IN (
    SELECT fingerprint FROM ({branches}) AS found ORDER BY {sort} DESC, fingerprint DESC LIMIT :most
)
ORDER BY {sort} DESC, fingerprint DESC

-- name: _counted
SELECT 1 AS one FROM redrive.failure_groups WHERE {where}

-- name: _count
SELECT count(*) FROM ({branches} LIMIT :most) AS counted

-- name: find
SELECT {columns:FailureGroup}, :now, {_letters} FROM redrive.failure_groups AS page
WHERE org = :org AND (fingerprint = :fingerprint OR (fingerprint >= :first AND fingerprint < :beyond))
ORDER BY fingerprint
LIMIT :most

-- name: lock
SELECT {columns:FailureGroup}, :now FROM redrive.failure_groups WHERE org = :org AND fingerprint = :fingerprint FOR UPDATE

-- name: versions
SELECT code_version, occurrences, first_seen, last_seen FROM redrive.failure_group_versions
WHERE org = :org AND fingerprint = :fingerprint
ORDER BY last_seen DESC, first_seen DESC, code_version
LIMIT :most

-- name: replays
SELECT name, (
    SELECT count(*) FROM (
        SELECT 1 FROM redrive.replays
        WHERE org = :org AND fingerprint = :fingerprint AND state = name
        LIMIT :most
    ) AS counted
) FROM (
    SELECT 'PLANNED' AS name UNION ALL SELECT 'RUNNING' UNION ALL SELECT 'SUCCEEDED' UNION ALL SELECT 'FAILED'
    UNION ALL SELECT 'CANCELLED' UNION ALL SELECT 'REFUSED' UNION ALL SELECT 'SKIPPED'
) AS states

-- name: over_time
SELECT bucket, count(*) FROM (
    SELECT CAST(floor((created_at - (:now - :seconds)) / :width) AS integer) AS bucket FROM redrive.dead_letters
    WHERE org = :org AND fingerprint = :fingerprint AND state = :state AND created_at > :now - :seconds
    ORDER BY created_at DESC
    LIMIT :most
) AS counted
GROUP BY bucket

-- name: change
UPDATE redrive.failure_groups
SET state = :state, ignored_until = :ignored_until, ignored_beyond = :ignored_beyond,
    ignored_version = :ignored_version, changed_by = :by, changed_at = :now, change_reason = :reason
WHERE org = :org AND fingerprint = :fingerprint
RETURNING {columns:FailureGroup}

-- name: no_longer_ignored
SELECT org, fingerprint, {columns:GroupSnapshot}, :now
FROM redrive.failure_groups
WHERE state = 'IGNORED' AND ignored_until <= :now
ORDER BY ignored_until
LIMIT :most
FOR UPDATE SKIP LOCKED

-- name: open_letters
SELECT id FROM redrive.dead_letters
WHERE org = :org AND fingerprint = :fingerprint AND state IN ('OPEN', 'EXHAUSTED')
LIMIT :most

-- name: sample
SELECT id FROM redrive.dead_letters WHERE id = :sample AND org = :org AND fingerprint = :fingerprint

-- name: newest
SELECT created_at, id FROM redrive.dead_letters
WHERE org = :org AND fingerprint = :fingerprint AND state = :state
ORDER BY created_at DESC, id DESC
LIMIT 1

-- name: _record
SELECT batch.fingerprint,
    COALESCE((SELECT CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts AS counted
        WHERE counted.org = :org AND counted.fingerprint = batch.fingerprint AND counted.state = 'OPEN'
            AND redrive <> 'never'), 0)
    - (SELECT count(*) FROM {_left}
        WHERE letter.org = :org AND letter.fingerprint = batch.fingerprint AND letter.state = 'OPEN'
            AND redrive <> 'never' AND next_redrive_at IS NULL)
    - (SELECT count(DISTINCT stuck.id) FROM ({_stuck}) AS stuck
        WHERE stuck.org = :org AND stuck.fingerprint = batch.fingerprint),
    (SELECT count(*) FROM (
        SELECT 1 FROM redrive.replays AS replay
        WHERE replay.org = :org AND replay.fingerprint = batch.fingerprint AND replay.state = 'SUCCEEDED'
        LIMIT :most
    ) AS succeeded),
    (SELECT count(*) FROM (
        SELECT 1 FROM redrive.replays AS replay
        WHERE replay.org = :org AND replay.fingerprint = batch.fingerprint AND replay.state = 'FAILED'
        LIMIT :most
    ) AS failed)

-- name: _left
redrive.dead_letters AS letter INDEXED BY dead_letters_left

-- name: records
{_record} FROM {batch:GroupKey only fingerprint}

-- name: spread
SELECT state, queue, CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts
WHERE org = :org AND fingerprint = :fingerprint
    AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED', 'RESOLVED', 'IGNORED', 'ARCHIVED')
GROUP BY state, queue HAVING sum(number) > 0
ORDER BY state, queue
