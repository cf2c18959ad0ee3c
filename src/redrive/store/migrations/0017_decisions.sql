-- The facts of a decision, as JSON, instead of a sentence. Workers of the version before still write the sentence.
ALTER TABLE redrive.attempts ADD COLUMN decision text;
