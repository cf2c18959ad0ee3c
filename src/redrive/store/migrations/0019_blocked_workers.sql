-- A worker whose event loop does not answer says so: since when, and which step blocks it.
ALTER TABLE redrive.workers ADD COLUMN blocked_at double precision;
ALTER TABLE redrive.workers ADD COLUMN blocked_by text;
