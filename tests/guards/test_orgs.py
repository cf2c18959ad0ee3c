"""Every statement filters by org: an org cannot reach another org's runs (I8)."""

from __future__ import annotations

import pytest
from tests.store.build import claimed, enqueued, full, stopped, tables

from redrive.errors import NotFoundError
from redrive.store.database import Database
from redrive.store.store import Store


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.mark.parametrize("name", ["steps", "attempts", "events"])
async def test_nothing_about_a_run_of_another_org_is_revealed_i8(store: Store, name: str) -> None:
    claim = await claimed(store, org="a")
    assert await store.records.record([full(stopped(claim), claim)])
    told = getattr(store.runs, name)

    assert len(await told(claim.id, "a")) == 1
    assert await told(claim.id, "b") == []


@pytest.mark.parametrize("delay", [0.0, 60.0])
async def test_a_waiting_run_of_another_org_is_not_cancelled_i8(store: Store, delay: float) -> None:
    [run_id] = await enqueued(store, org="a", delay=delay)
    before = await tables(store.database)

    with pytest.raises(NotFoundError, match=run_id):
        await store.runs.cancel(run_id, "b")

    assert await tables(store.database) == before
