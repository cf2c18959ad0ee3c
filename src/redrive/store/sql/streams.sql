-- name: _this
org = :org AND name = :name

-- name: ensure
INSERT INTO redrive.streams (org, name, generation, identity, last_position, stored, duplicates, dead, taken_over, gaps)
VALUES (:org, :name, 0, '', :start, 0, 0, 0, 0, '[]')
ON CONFLICT (org, name) DO NOTHING

-- name: get
SELECT {columns:StreamState} FROM redrive.streams WHERE {_this}

-- name: all
SELECT {columns:StreamState} FROM redrive.streams WHERE org = :org ORDER BY name

-- name: begin_generation
-- Of several consumers that find the same, one wins.
UPDATE redrive.streams
SET generation = generation + 1, identity = :identity, last_position = :start, seen = NULL
WHERE {_this} AND identity = :before
RETURNING generation

-- name: take_reader
UPDATE redrive.streams SET reader = :reader, reader_token = :token, reader_until = :clock + :lease_seconds
WHERE {_this} AND (reader_until IS NULL OR reader_until <= :clock OR reader_token = :token)
RETURNING name

-- name: hold_reader
-- The fence of a reader, and the renewal of its lease. A token that is still there is valid, even after the lease.
UPDATE redrive.streams SET reader_until = :clock + :lease_seconds
WHERE {_this} AND reader_token = :token
RETURNING name

-- name: release_reader
UPDATE redrive.streams SET reader = NULL, reader_token = NULL, reader_until = NULL
WHERE {_this} AND reader_token = :token

-- name: report
UPDATE redrive.streams
SET stored = stored + :stored, duplicates = duplicates + :duplicates, dead = dead + :dead,
    taken_over = taken_over + :taken_over, lag = :lag, pending = :pending, oldest_at = :oldest_at, rate = :rate,
    held_back = :held_back, last_error = COALESCE(:last_error, last_error), error_at = COALESCE(:error_at, error_at),
    seen = COALESCE(:seen, seen), reported_at = :now,
    last_position = CASE WHEN generation = :generation AND last_position < :last_position THEN :last_position
        ELSE last_position END
WHERE {_this}

-- name: add_gap
UPDATE redrive.streams SET gaps = :gaps WHERE {_this} AND gaps = :before
RETURNING name

-- name: pause
UPDATE redrive.streams SET paused_at = :now, paused_by = :by WHERE {_this} AND paused_at IS NULL
RETURNING name

-- name: resume
UPDATE redrive.streams SET paused_at = NULL, paused_by = NULL WHERE {_this} AND paused_at IS NOT NULL
RETURNING name

-- name: bury
INSERT INTO redrive.dead_entries ({columns:DeadEntry})
VALUES (:org, :stream, :generation, :position, :run_id)
ON CONFLICT (org, stream, generation, position) DO NOTHING
RETURNING run_id

-- name: buried
SELECT run_id FROM redrive.dead_entries
WHERE org = :org AND stream = :stream AND generation = :generation AND position = :position
