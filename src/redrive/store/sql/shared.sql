-- name: _ready
-- Where the work of runs lies, as the beginning of a condition. PostgreSQL has a table for each of these places.
redrive.runs WHERE place = 'ready'

-- name: _waiting
redrive.runs WHERE place = 'waiting'

-- name: _held
redrive.runs WHERE place = 'held'

-- name: _alone
redrive.runs WHERE place = 'alone'

-- name: _leased
redrive.runs WHERE place = 'leased'

-- name: _ended
redrive.runs WHERE place = 'ended'

-- name: _ended_runs
redrive.runs

-- name: _has_ended
run.place = 'ended'

-- name: _given
redrive.runs

-- name: _hour
-- What one point of priority weighs against waiting, in seconds.
3600.0
