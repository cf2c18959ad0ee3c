"""Claims take ready runs and suspects, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
from tests.store.build import EXPIRED, ORG, claimed, column, enqueued, holder, parked, rescheduled

from redrive.model.claim import Claim
from redrive.store.database import Database
from redrive.store.record import Record
from redrive.store.store import Store


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def waiting_for(store: Store, kind: str) -> None:
    """Create two runs that this kind of claim can take, each after one attempt."""
    await enqueued(store, 2)
    place, isolation = ("ready", 0) if kind == "claim" else ("alone", 1)
    claims = await store.leases.claim("default", 2, holder())
    records = [Record(rescheduled(each, place=place, isolation=isolation)) for each in claims]
    assert len(await store.records.record(records)) == 2


async def take(
    store: Store,
    kind: str,
    queue: str = "default",
    workflows: Sequence[str] | None = None,
) -> list[Claim]:
    if kind == "claim":
        return await store.leases.claim(queue, 1, holder(), workflows)
    return await store.leases.claim_alone(queue, holder(), workflows)


async def queue(store: Store, kind: str) -> bool:
    return await take(store, kind, "mail") == []


async def workflows(store: Store, kind: str) -> bool:
    return await take(store, kind, workflows=["pay"]) == []


async def limit(store: Store, kind: str) -> bool:
    return len(await take(store, kind)) == 1


async def paused(store: Store, kind: str) -> bool:
    await store.limits.pause("default", "ana", "")
    return await take(store, kind) == []


async def epoch_rises(store: Store, kind: str) -> bool:
    return [claim.epoch for claim in await take(store, kind)] == [2]


async def attempt_rises(store: Store, kind: str) -> bool:
    return [claim.attempt for claim in await take(store, kind)] == [2]


async def begun_once(store: Store, kind: str) -> bool:
    began = {run.id: run.started_at for run in await store.runs.all()}
    [claim] = await take(store, kind)
    return (await store.runs.get(claim.id, ORG)).started_at == began[claim.id]


RULES: dict[str, Callable[[Store, str], Awaitable[bool]]] = {
    "queue": queue,
    "workflows": workflows,
    "limit": limit,
    "paused": paused,
    "epoch rises": epoch_rises,
    "attempt rises": attempt_rises,
    "first start": begun_once,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["claim", "claim_alone"])
async def test_a_claim_takes_only_eligible_runs(store: Store, kind: str, rule: str) -> None:
    await waiting_for(store, kind)

    assert await RULES[rule](store, kind)


async def test_only_runs_that_need_isolation_are_claimed_alone(store: Store) -> None:
    await enqueued(store, 3)
    waiting, held, ready = await store.leases.claim("default", 3, holder())
    changes = (rescheduled(waiting), parked(held), rescheduled(ready, place="ready"))
    assert len(await store.records.record([Record(change) for change in changes])) == 3

    assert await store.leases.claim_alone("default", holder()) == []


@pytest.mark.parametrize("way", ["promote", "release"])
async def test_an_isolated_run_waits_until_it_is_alone(store: Store, database: Database, way: str) -> None:
    claim = await claimed(store)
    await store.records.record([Record(rescheduled(claim, place="alone", isolation=1))])
    [claim] = await store.leases.claim_alone("default", holder())
    if way == "promote":
        await store.records.record([Record(rescheduled(claim, delay=EXPIRED, isolation=1))])
        assert await store.leases.promote(10) == ["default"]
    else:
        await store.records.record([Record(parked(claim))])
        assert len(await store.limits.release("breaker:mail", 10)) == 1

    assert await column(database, claim.id, "place") == "alone"
