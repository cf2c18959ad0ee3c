CREATE TABLE redrive.idempotency_keys (
    org text NOT NULL,
    domain text NOT NULL,
    user_id text NOT NULL,
    key text NOT NULL,
    status text NOT NULL,
    request_hash text NOT NULL,
    response text,
    error text,
    token bigint NOT NULL,
    lease_expires_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (org, domain, user_id, key)
);

CREATE INDEX idempotency_keys_expiry ON redrive.idempotency_keys (expires_at);
