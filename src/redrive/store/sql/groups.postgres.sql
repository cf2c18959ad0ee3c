-- name: occur
-- One round trip for the whole batch.
INSERT INTO redrive.failure_groups AS known (org, fingerprint, title, reason, workflow, step, task, category, error_type,
    sample, state, occurrences, first_seen, last_seen)
SELECT org, fingerprint, title, reason, workflow, step, task, category, error_type, sample, 'OPEN', occurrences, :now,
    :now
FROM unnest(CAST(:org AS text[]), CAST(:fingerprint AS text[]), CAST(:title AS text[]), CAST(:reason AS text[]),
    CAST(:workflow AS text[]), CAST(:step AS text[]), CAST(:task AS text[]), CAST(:category AS text[]),
    CAST(:error_type AS text[]), CAST(:sample AS text[]), CAST(:occurrences AS bigint[]))
    AS batch (org, fingerprint, title, reason, workflow, step, task, category, error_type, sample, occurrences)
{_again}

-- name: occur_in_version
-- One round trip for the whole batch.
INSERT INTO redrive.failure_group_versions AS known (org, fingerprint, code_version, occurrences, first_seen, last_seen)
SELECT org, fingerprint, code_version, occurrences, :now, :now
FROM unnest(CAST(:org AS text[]), CAST(:fingerprint AS text[]), CAST(:code_version AS text[]),
    CAST(:occurrences AS bigint[])) AS batch (org, fingerprint, code_version, occurrences)
{_version_again}

-- name: come_back
-- One round trip for the whole batch.
UPDATE redrive.failure_groups AS known
SET state = 'OPEN', regressed_at = CASE WHEN batch.regressed = 1 THEN :now ELSE regressed_at END,
    ignored_until = NULL, ignored_beyond = NULL, ignored_version = NULL,
    changed_by = CAST(:by AS text), changed_at = :now, change_reason = batch.reason
FROM unnest(CAST(:org AS text[]), CAST(:fingerprint AS text[]), CAST(:before AS text[]), CAST(:reason AS text[]),
    CAST(:regressed AS integer[])) AS batch (org, fingerprint, before, reason, regressed)
WHERE known.org = batch.org AND known.fingerprint = batch.fingerprint AND known.state = batch.before
RETURNING known.org, known.fingerprint

-- name: lock
-- SQLite locks the whole file, PostgreSQL the row.
SELECT {_group}, :now FROM redrive.failure_groups WHERE org = :org AND fingerprint = :fingerprint FOR UPDATE

-- name: no_longer_ignored
-- SKIP LOCKED: what somebody changes in this moment is left to them.
SELECT org, fingerprint, state, occurrences, ignored_until, ignored_beyond, ignored_version, :now
FROM redrive.failure_groups
WHERE state = 'IGNORED' AND ignored_until <= :now
ORDER BY ignored_until
LIMIT :most
FOR UPDATE SKIP LOCKED

-- name: _has_letters
-- Changes of counts are rows of their own, and all of one state are read at once, along an index.
fingerprint IN (SELECT fingerprint FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = :org AND counted.state IN ({states})
    GROUP BY fingerprint HAVING sum(number) > 0)

-- name: _has_unscheduled
-- As above.
(fingerprint IN (SELECT fingerprint FROM redrive.dead_letter_counts AS counted
    WHERE counted.org = :org AND counted.state = 'OPEN' AND redrive = 'never'
    GROUP BY fingerprint HAVING sum(number) > 0)
    OR {_has_left})
