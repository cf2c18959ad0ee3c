-- It holds the numbers, which are rows to be summed up. It serves whoever names the states, if need be all of them, as
-- the index before it did; so nothing more has to be written.
CREATE INDEX dead_letter_counts_by_state ON redrive.dead_letter_counts (org, state, fingerprint) INCLUDE (number);
DROP INDEX redrive.dead_letter_counts_of_failure;
