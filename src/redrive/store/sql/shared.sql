-- name: _ready
-- The place of the work of runs, as the start of a condition. PostgreSQL has a table for each place.
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
-- The seconds of waiting that one point of priority is worth.
3600.0
