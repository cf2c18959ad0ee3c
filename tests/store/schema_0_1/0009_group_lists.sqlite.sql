-- Rows that count nothing are not in it: it is written to when the first letter comes, or the last one goes.
CREATE INDEX dead_letter_counts_by_state ON dead_letter_counts (org, state, fingerprint) WHERE number > 0;
