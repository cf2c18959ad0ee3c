-- The workflows that a worker knows, as JSON. Workers of the version before leave it empty: they claim everything.
ALTER TABLE redrive.workers ADD COLUMN workflows text;
