CREATE TABLE redrive.organizations (
    name text PRIMARY KEY,
    title text NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL
);

INSERT INTO redrive.organizations (name, title, created_at, created_by)
SELECT known.org, '', COALESCE((SELECT min(applied_at) FROM redrive.migrations), 0), 'redrive'
FROM (SELECT 'default' AS org UNION SELECT org FROM redrive.runs) AS known;

CREATE TABLE redrive.users (
    id text PRIMARY KEY,
    name text NOT NULL,
    org text NOT NULL,
    password text,
    password_number integer NOT NULL DEFAULT 0,
    issuer text,
    subject text,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    disabled_at double precision
);
CREATE UNIQUE INDEX users_by_name ON redrive.users (name);
CREATE UNIQUE INDEX users_by_identity ON redrive.users (issuer, subject) WHERE issuer IS NOT NULL;

CREATE TABLE redrive.memberships (
    org text NOT NULL,
    user_id text NOT NULL,
    role text NOT NULL,
    active integer NOT NULL,
    version integer NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (org, user_id)
);
CREATE INDEX memberships_of_user ON redrive.memberships (user_id, org);

CREATE TABLE redrive.api_keys (
    id text PRIMARY KEY,
    org text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    scopes text,
    hash text NOT NULL,
    previous_hash text,
    previous_expires_at double precision,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    expires_at double precision,
    last_used_at double precision,
    rotated_at double precision,
    revoked_at double precision,
    revoked_by text
);
CREATE INDEX api_keys_of_org ON redrive.api_keys (org, id);
CREATE UNIQUE INDEX api_keys_by_name ON redrive.api_keys (org, name) WHERE revoked_at IS NULL;

CREATE TABLE redrive.sessions (
    hash text PRIMARY KEY,
    id text NOT NULL,
    user_id text NOT NULL,
    org text NOT NULL,
    kind text NOT NULL,
    created_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    expires_at double precision NOT NULL
);
CREATE INDEX sessions_of_user ON redrive.sessions (user_id, id);
CREATE INDEX sessions_by_expiry ON redrive.sessions (expires_at);

CREATE TABLE redrive.one_time_tokens (
    hash text PRIMARY KEY,
    kind text NOT NULL,
    user_id text,
    body text NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    expires_at double precision NOT NULL
);
CREATE INDEX one_time_tokens_of_user ON redrive.one_time_tokens (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX one_time_tokens_by_expiry ON redrive.one_time_tokens (expires_at);
