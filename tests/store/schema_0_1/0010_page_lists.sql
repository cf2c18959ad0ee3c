-- For pages that are shown among a million of everything.
--
-- Runs get no index more: four are wider, so that a page need not look at the runs themselves. Those that have ended are
-- found by their queue too; of those that wait, what holds them is known, and whether they have failed before.

DROP INDEX redrive.runs_over;
CREATE INDEX runs_over ON redrive.runs (org, workflow, queue, state, submitted_at, id) WHERE place = 'ended';
DROP INDEX redrive.runs_idle;
CREATE INDEX runs_idle ON redrive.runs (org, queue, place, state, workflow, submitted_at, id, held_by, step_state)
    WHERE place <> 'ended' AND place <> 'leased';
DROP INDEX redrive.runs_waiting;
CREATE INDEX runs_waiting ON redrive.runs (due_at, queue) WHERE place = 'waiting';
DROP INDEX redrive.runs_held;
CREATE INDEX runs_held ON redrive.runs (held_by, priority DESC, submitted_at, id, queue) WHERE place = 'held';

-- What people do is rare, and looked for among what happens all the time, which is left out.

CREATE INDEX audit_by_action ON redrive.audit (org, action, sequence) WHERE action <> 'dead_letter.moved';
CREATE INDEX audit_by_actor ON redrive.audit (org, actor, sequence) WHERE actor <> 'redrive';
