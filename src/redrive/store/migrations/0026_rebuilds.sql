-- Rebuilds: the stored events of a stream through one projector again, in the order of the stream. `generation`, `position`
-- and `event_id` are those of the last event that a rebuild has read; those with `end_` of the last one that it will read.
CREATE TABLE redrive.rebuilds (
    id uuid NOT NULL,
    org text NOT NULL,
    stream text NOT NULL,
    projector text NOT NULL,
    version integer NOT NULL,
    state text NOT NULL,
    types text NOT NULL,
    since double precision,
    until double precision,
    only_missing integer NOT NULL,
    rate double precision,
    max_failures integer NOT NULL,
    total bigint NOT NULL,
    seen bigint NOT NULL,
    started bigint NOT NULL,
    skipped bigint NOT NULL,
    reason text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    resumed_at double precision NOT NULL,
    released_at double precision NOT NULL,
    ended_at double precision,
    stopped_because text,
    generation integer NOT NULL,
    position uuid NOT NULL,
    event_id uuid NOT NULL,
    end_generation integer NOT NULL,
    end_position uuid NOT NULL,
    end_event_id uuid NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX rebuilds_running ON redrive.rebuilds (created_at) WHERE state = 'RUNNING';
-- One unfinished rebuild of a projector at a time: two would mix up the order of the events.
CREATE UNIQUE INDEX rebuilds_unfinished ON redrive.rebuilds (org, stream, projector, version)
    WHERE state IN ('RUNNING', 'PAUSED', 'STOPPED');
CREATE INDEX rebuilds_by_time ON redrive.rebuilds (org, created_at, id);

-- For finding events by type and by user, and for the event of a run.
CREATE INDEX events_by_type ON redrive.events (org, type, stored_at, id);
CREATE INDEX events_by_user ON redrive.events (org, user_id, stored_at, id) WHERE user_id IS NOT NULL;
CREATE INDEX projections_of_run ON redrive.projections (run_id);
