CREATE TABLE redrive.saved_views (
    id text PRIMARY KEY,
    org text NOT NULL,
    name text NOT NULL,
    page text NOT NULL,
    query text NOT NULL,
    view text NOT NULL,
    sort text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    UNIQUE (org, page, name)
);
