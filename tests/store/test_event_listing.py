"""Lists of events read indexes, however many events there are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.store.build import ask

from redrive.policy.query import parse
from redrive.policy.query_language import EVENTS
from redrive.store.database import Database
from redrive.store.event_filter import EventFilter
from redrive.store.event_listing import _statement
from redrive.store.postgres import PostgresDatabase
from redrive.store.statement import SqlQuery, Statement

NUMBER = 3_000
_COLUMNS = "id, org, stream, type, user_id, dedupe_key, generation, position, payload, stored_at"
_ID = "'00000000-0000-4000-8000-' || lpad(to_hex(i), 12, '0')"


async def put_many(database: Database) -> None:
    if isinstance(database, PostgresDatabase):
        await ask(
            database,
            f"INSERT INTO redrive.events ({_COLUMNS}) SELECT CAST({_ID} AS uuid), 'acme', 'scores',"
            f" CASE WHEN i % 500 = 0 THEN 'rare' ELSE 'often' END, 'user' || i % 300, 'key' || i, 1,"
            f" CAST({_ID} AS uuid), '0', i FROM generate_series(1, {NUMBER}) AS i",
        )
        await ask(database, "ANALYZE redrive.events")
        return
    await ask(
        database,
        f"WITH RECURSIVE many (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < {NUMBER})"
        f" INSERT INTO redrive.events ({_COLUMNS}) SELECT printf('%032x', i), 'acme', 'scores',"
        " CASE WHEN i % 500 = 0 THEN 'rare' ELSE 'often' END, 'user' || i % 300, 'key' || i, 1,"
        " printf('%032x', i), '0', i FROM many",
    )


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("", "events_by_time"),
        ("since:1h", "events_by_time"),
        ("stream:scores", "events_by_time"),
        ("type:rare", "events_by_type"),
        ("user:user7", "events_by_user"),
        ("key:key7", "events_once"),
        ("is:failed", "projections_of_run"),
        ("is:queued,failed projector:qscore", "projections_of_run"),
    ],
)
async def test_a_page_of_events_reads_an_index(database: Database, query: str, index: str) -> None:
    await put_many(database)
    parsed = parse(query, EVENTS)
    wanted = EventFilter.of(parsed, "acme")
    found = _statement("_page", wanted, parsed)
    explained = Statement(
        _explained(found.sqlite, "EXPLAIN QUERY PLAN"), _explained(found.postgres, "EXPLAIN")
    )

    rows = await database.fetch(explained, {**wanted.parameters, "most": 51})
    plan = "\n".join(str(row[-1]) for row in rows)

    assert index in plan, plan
    assert not re.search(r"Seq Scan on events|SCAN event\b(?! USING)", plan), plan


def _explained(query: SqlQuery, word: str) -> SqlQuery:
    return replace(query, text=f"{word} {query.text}")
