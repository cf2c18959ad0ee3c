-- Events of streams, stored once per dedupe key; the runs that project them; the state of each stream; entries that became
-- dead letters; and the outbox, from which changes are delivered to other systems.

-- `position` orders the events of one generation of a stream: 16 hexadecimal digits of milliseconds and 16 of the sequence,
-- as in the id of a Redis entry. Generation 0 holds the events that the application recorded itself.
CREATE TABLE redrive.events (
    id uuid NOT NULL,
    org text NOT NULL,
    stream text NOT NULL,
    type text NOT NULL,
    source text,
    user_id text,
    dedupe_key text NOT NULL,
    generation integer NOT NULL,
    position uuid NOT NULL,
    payload text NOT NULL,
    occurred_at double precision,
    stored_at double precision NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX events_once ON redrive.events (org, stream, dedupe_key);
CREATE INDEX events_in_order ON redrive.events (org, stream, generation, position, id);
CREATE INDEX events_by_time ON redrive.events (org, stored_at, id);

-- Which run projects an event. `waits` is 1 until the run may be stored: an earlier entry of the stream is undecided.
CREATE TABLE redrive.projections (
    event_id uuid NOT NULL,
    projector text NOT NULL,
    version integer NOT NULL,
    org text NOT NULL,
    stream text NOT NULL,
    run_id uuid NOT NULL,
    waits integer NOT NULL,
    PRIMARY KEY (event_id, projector, version)
);
CREATE INDEX projections_waiting ON redrive.projections (stream, org) WHERE waits = 1;

-- A stream, as its consumers last saw it. `identity` is also stored in Redis: where it is missing there, Redis came back
-- empty, and a new generation starts.
CREATE TABLE redrive.streams (
    org text NOT NULL,
    name text NOT NULL,
    generation integer NOT NULL,
    identity text NOT NULL,
    last_position uuid NOT NULL,
    reader text,
    reader_token bigint,
    reader_until double precision,
    paused_at double precision,
    paused_by text,
    stored bigint NOT NULL,
    duplicates bigint NOT NULL,
    dead bigint NOT NULL,
    taken_over bigint NOT NULL,
    lag bigint,
    pending bigint,
    oldest_at double precision,
    rate double precision,
    held_back text,
    last_error text,
    error_at double precision,
    gaps text NOT NULL,
    seen text,
    reported_at double precision,
    PRIMARY KEY (org, name)
);

-- Entries that became dead letters. An entry that is delivered again is found here.
CREATE TABLE redrive.dead_entries (
    org text NOT NULL,
    stream text NOT NULL,
    generation integer NOT NULL,
    position uuid NOT NULL,
    run_id uuid NOT NULL,
    PRIMARY KEY (org, stream, generation, position)
);

-- What is to be delivered to another system. `available_at` is when the next process may deliver it: later, while one does.
CREATE TABLE redrive.outbox (
    topic text NOT NULL,
    org text NOT NULL,
    key text NOT NULL,
    version bigint NOT NULL,
    reference text NOT NULL,
    token bigint,
    available_at double precision NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (topic, org, key)
);
CREATE INDEX outbox_due ON redrive.outbox (topic, available_at);
