-- The cast keeps SQLite from choosing an index of the organization, which it would have to read completely.

-- name: runs
SELECT id, workflow, submitted_at FROM redrive.runs
WHERE CAST(org AS text) = :org AND id >= :first AND id <= :last
ORDER BY id DESC
LIMIT :most

-- name: dead_letters
SELECT id, task, created_at FROM redrive.dead_letters
WHERE CAST(org AS text) = :org AND id >= :first AND id <= :last
ORDER BY id DESC
LIMIT :most

-- name: operations
SELECT id, mode, planned_at FROM redrive.replay_operations
WHERE CAST(org AS text) = :org AND id >= :first AND id <= :last
ORDER BY id DESC
LIMIT :most

-- name: replays
SELECT id, (SELECT task FROM redrive.dead_letters AS letter WHERE letter.id = replay.letter_id AND letter.org = :org),
    requested_at
FROM redrive.replays AS replay
WHERE CAST(org AS text) = :org AND id >= :first AND id <= :last
ORDER BY id DESC
LIMIT :most

-- name: events
SELECT id, type, stored_at FROM redrive.events
WHERE CAST(org AS text) = :org AND id >= :first AND id <= :last
ORDER BY id DESC
LIMIT :most

-- name: rebuilds
SELECT id, projector, created_at FROM redrive.rebuilds
WHERE CAST(org AS text) = :org AND id >= :first AND id <= :last
ORDER BY id DESC
LIMIT :most
