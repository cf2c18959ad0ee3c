-- name: successes
-- PostgreSQL needs a lateral join, which SQLite lacks: otherwise it would compare all runs with those found.
{_queue_names}
SELECT COALESCE(code_version, ''), count(*) FROM (
    SELECT run.started_at, run.code_version FROM queue_names
    CROSS JOIN LATERAL (
        SELECT submitted_at, started_at, code_version FROM {_ended} AND {_successes}
    ) AS run
    ORDER BY run.submitted_at DESC LIMIT :most
) AS newest
WHERE started_at > :since
GROUP BY 1
