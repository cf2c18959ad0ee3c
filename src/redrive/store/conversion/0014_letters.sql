-- A dead letter is in five indexes instead of eleven, because a change of its state writes all of them.
--
-- Lists walk along `dead_letters_by_state`, which also has the columns that people filter by most, or by time. A step has
-- one live letter and any number of closed ones; the same index finds the letters of a run.

DROP INDEX redrive.dead_letters_live;
DROP INDEX redrive.dead_letters_of_run;
CREATE UNIQUE INDEX dead_letters_of_run ON redrive.dead_letters
    (run_id, step_index, (CASE WHEN state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') THEN '' ELSE id END));

DROP INDEX redrive.dead_letters_by_category;
DROP INDEX redrive.dead_letters_by_workflow;
DROP INDEX redrive.dead_letters_by_step;
DROP INDEX redrive.dead_letters_by_queue;
DROP INDEX redrive.dead_letters_by_state;
CREATE INDEX dead_letters_by_state ON redrive.dead_letters
    (org, state, created_at, id, category, workflow, step, queue);

-- A run without a correlation id of its own has its id for one: such letters are found by their run.
DROP INDEX redrive.dead_letters_by_correlation;
CREATE INDEX dead_letters_correlated ON redrive.dead_letters (correlation_id) WHERE correlation_id <> run_id;

-- The replays of a letter are found among those of its run, and a running one too.
DROP INDEX redrive.replays_of_letter;
DROP INDEX redrive.replays_running;
DROP INDEX redrive.replays_of_run;
CREATE INDEX replays_of_run ON redrive.replays (run_id);
