-- name: _left
-- PostgreSQL finds the index by itself; SQLite takes the one of all letters of a failure.
redrive.dead_letters AS letter
