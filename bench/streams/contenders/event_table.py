"""A table of events for contenders that have none, and the statement that fills it."""

from __future__ import annotations

import psycopg

TABLE = """
CREATE TABLE events (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stream text NOT NULL, type text NOT NULL, user_id text, dedupe_key text NOT NULL,
  position text NOT NULL, payload text NOT NULL, stored_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (stream, dedupe_key)
)
"""
INSERT = """
INSERT INTO events (stream, type, user_id, dedupe_key, position, payload)
SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
ON CONFLICT (stream, dedupe_key) DO NOTHING
"""


def create_table(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
