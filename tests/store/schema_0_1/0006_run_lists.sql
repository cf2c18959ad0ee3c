-- For lists of runs and the depth of queues. Every index on runs is paid for by the hot path: no run is in two of the
-- first ones at a time, one in flight is in neither, and of correlation ids only those that somebody has given count.

CREATE INDEX runs_idle ON redrive.runs (org, queue, place, state, workflow, submitted_at, id)
    WHERE place <> 'ended' AND place <> 'leased';
CREATE INDEX runs_over ON redrive.runs (org, workflow, state, submitted_at, id) WHERE place = 'ended';
CREATE INDEX runs_correlated ON redrive.runs (org, correlation_id, submitted_at, id) WHERE correlation_id <> id;
