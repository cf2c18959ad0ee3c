-- name: release
-- The work moves out of idle, or to another place in idle. SKIP LOCKED, so that workers do not wait for each other.
WITH gone AS (
    DELETE FROM redrive.idle WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.idle
        WHERE place = 'held' AND held_by = :held_by AND {_released}
        ORDER BY sort_key, id
        LIMIT :most OFFSET :skip
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
), moved AS (
    SELECT {columns:WorkRow}, CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END AS place, state, step_state,
        CAST(NULL AS double precision) AS due_at, CAST(NULL AS text) AS held_by
    FROM gone
), {_queued}
SELECT {columns:Released} FROM moved

-- name: hold
-- The work moves from ready into idle. SKIP LOCKED, as in release.
WITH gone AS (
    DELETE FROM redrive.ready WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.ready WHERE queue = :queue AND workflow = :workflow
        ORDER BY sort_key, id
        LIMIT :most
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
), moved AS (
    SELECT {columns:WorkRow}, 'held' AS place, state, step_state, CAST(NULL AS double precision) AS due_at,
        CAST(:held_by AS text) AS held_by
    FROM gone
), {_queued}
SELECT id FROM moved
