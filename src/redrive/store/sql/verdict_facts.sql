-- name: letter
SELECT {columns:FailedLetter except now}, :now
FROM (
    SELECT letter.*, COALESCE(past.decision, '{"code":"' || letter.reason || '"}') AS decision FROM redrive.dead_letters AS letter
    LEFT JOIN redrive.attempts AS past
        ON past.run_id = letter.run_id AND past.step_index = letter.step_index AND past.number = letter.attempts
) AS explained
WHERE id = :id AND org = :org

-- name: _queue_names
WITH RECURSIVE queue_names (queue) AS (
    SELECT (SELECT min(queue) FROM {_ended} AND org = :org AND workflow = :workflow)
    UNION ALL
    SELECT (
        SELECT min(queue) FROM {_ended} AND org = :org AND workflow = :workflow AND queue > queue_names.queue
    )
    FROM queue_names WHERE queue_names.queue IS NOT NULL
)

-- name: _successes
org = :org AND workflow = :workflow AND queue = queue_names.queue AND state = 'SUCCESS'
    ORDER BY submitted_at DESC LIMIT :most

-- name: successes
{_queue_names}
SELECT COALESCE(code_version, ''), count(*) FROM (
    SELECT started_at, code_version FROM queue_names
    CROSS JOIN redrive.runs AS run ON run.id IN (SELECT id FROM {_ended} AND {_successes})
    ORDER BY submitted_at DESC LIMIT :most
) AS newest
WHERE started_at > :since
GROUP BY 1

-- name: occurrences
SELECT count(*) FROM (
    SELECT 1 FROM redrive.dead_letters
    WHERE org = :org AND fingerprint = :fingerprint AND created_at > :since AND id <> :id
        AND state IN ('OPEN', 'REPLAYING', 'EXHAUSTED', 'RESOLVED', 'IGNORED', 'ARCHIVED')
    LIMIT :most
) AS counted

-- name: failing
SELECT code_version FROM redrive.failure_group_versions
WHERE org = :org AND fingerprint = :fingerprint AND last_seen > :since

-- name: replays
SELECT CASE WHEN letter_id = :id THEN 1 ELSE 0 END, state, count(*), max(ended_at) FROM (
    SELECT letter_id, state, ended_at FROM (
        SELECT letter_id, state, ended_at FROM redrive.replays
        WHERE org = :org AND fingerprint = :fingerprint AND state = 'SUCCEEDED' AND letter_id <> :id
        LIMIT :most
    ) AS succeeded
    UNION ALL SELECT letter_id, state, ended_at FROM (
        SELECT letter_id, state, ended_at FROM redrive.replays
        WHERE org = :org AND fingerprint = :fingerprint AND state = 'FAILED' AND letter_id <> :id
        LIMIT :most
    ) AS failed
    UNION ALL SELECT letter_id, state, ended_at FROM redrive.replays
    WHERE run_id = (SELECT letter.run_id FROM redrive.dead_letters AS letter WHERE letter.id = :id)
        AND org = :org AND letter_id = :id AND state IN ('SUCCEEDED', 'FAILED')
) AS ended
GROUP BY 1, 2

-- name: waits_for
SELECT link.depends_on, other.state FROM redrive.dead_letter_dependencies AS link
JOIN redrive.dead_letters AS other ON other.id = link.depends_on AND other.org = link.org
WHERE link.letter_id = :id AND link.org = :org AND other.state <> 'RESOLVED'
ORDER BY link.depends_on
LIMIT :most
