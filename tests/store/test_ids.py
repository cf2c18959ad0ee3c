"""Ids are found by their first characters: in one organization, by the primary key, on both databases."""

from __future__ import annotations

import pytest
from tests.store.build import ask
from tests.store.rows import LEASED, SUCCESS, put_runs, run_row
from tests.store.test_leases import explained

from redrive.model.id import id_range
from redrive.store.database import Database
from redrive.store.ids import IdKind, IdStore
from redrive.store.postgres import PostgresDatabase


async def test_runs_are_found_in_every_place_newest_first(database: Database) -> None:
    ids = [f"1a1e3e70a3b{digit}".ljust(32, digit) for digit in "0123"]
    await put_runs(
        database,
        [
            run_row(id=ids[0], workflow="greet", submitted_at=5.0),
            run_row(id=ids[1], **LEASED),
            run_row(id=ids[2], **SUCCESS),
            run_row(id=ids[3], org="acme"),
        ],
    )
    store = IdStore(database)
    found = await store.starting_with(IdKind.RUN, "1a1e3e70a3b", "default", 9)
    assert [candidate.id for candidate in found] == ids[2::-1]
    assert found[-1] == (ids[0], "greet", 5.0)
    assert await store.starting_with(IdKind.RUN, "1a1e3e70a3b3", "default", 9) == []
    [foreign] = await store.starting_with(IdKind.RUN, ids[3], "acme", 9)
    assert foreign.id == ids[3]
    assert len(await store.starting_with(IdKind.RUN, "1a1e3e", "default", 2)) == 2


@pytest.mark.parametrize("name", ["runs", "dead_letters", "operations", "replays"])
async def test_a_prefix_is_a_range_of_an_index(database: Database, name: str) -> None:
    first, last = id_range("1a1e3e70a3b")
    parameters = {"org": "default", "first": first, "last": last, "most": 6}
    async with database.transaction() as session:
        if isinstance(database, PostgresDatabase):  # PostgreSQL would scan empty tables
            await ask(session, "SET LOCAL enable_seqscan = off")
            await ask(session, "SET LOCAL enable_bitmapscan = off")
        rows = await session.fetch(explained("ids", name), parameters)
    plan = "\n".join(str(row[-1]) for row in rows)
    if isinstance(database, PostgresDatabase):
        assert "Seq Scan" not in plan, plan
        assert "id >= " in plan, plan
    else:
        assert "id>? AND id<?" in plan, plan
        assert "SCAN" not in plan, plan
        assert "TEMP B-TREE" not in plan, plan
