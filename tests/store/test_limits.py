"""Breakers, limits, paused queues, and live workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.store.build import (
    ask,
    claimed,
    column,
    enqueued,
    holder,
    parked,
    places,
    rescheduled,
    submit_at,
    tables,
    value,
)

from redrive.store.database import Database
from redrive.store.limits import LimitRow
from redrive.store.record import Record
from redrive.store.store import Store


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def held(store: Store, number: int, by: str = "breaker:mail", **changes: Any) -> list[str]:
    ids = await enqueued(store, number, **changes)
    claims = await store.leases.claim(changes.get("queue", "default"), 1000, holder())
    await store.records.record([Record(parked(claim, held_by=by)) for claim in claims])
    return ids


# Held runs


async def test_holders_are_named_once(store: Store) -> None:
    assert await store.limits.holders() == []
    await held(store, 3, "breaker:mail")
    await held(store, 2, "limit:it's")
    await held(store, 1, "breaker:fax")
    await enqueued(store, 1)

    assert await store.limits.holders() == ["breaker:fax", "breaker:mail", "limit:it's"]
    assert await store.limits.holders("breaker:") == ["breaker:fax", "breaker:mail"]
    assert await store.limits.holders("limit:") == ["limit:it's"]


async def test_counting_is_bounded(store: Store) -> None:
    await held(store, 4)
    await held(store, 1, "other")

    assert await store.limits.count_held("breaker:mail") == 4
    assert await store.limits.count_held("breaker:mail", 3) == 3
    assert await store.limits.count_held("nobody") == 0


async def test_released_in_order_of_priority_then_submission_then_id(
    store: Store, database: Database
) -> None:
    for name, priority in (("a", 0), ("b", 1), ("c", 0), ("d", 1), ("e", 0)):
        await held(store, 1, id=name, priority=priority)
    await submit_at(database, 100.0, "a", "b", "c")
    await submit_at(database, 50.0, "d", "e")

    batches = [await store.limits.release("breaker:mail", 2) for _ in range(4)]

    assert [{each.id for each in batch} for batch in batches] == [{"d", "b"}, {"e", "a"}, {"c"}, set()]
    assert {each[1:] for batch in batches for each in batch} == {(0, "default")}


async def test_runs_held_for_hours_are_released_before_more_urgent_ones(
    store: Store, database: Database
) -> None:
    """As in claims, an hour of waiting equals one point of priority."""
    for name, priority in (("old", 0), ("urgent", 2), ("older", 1)):
        await held(store, 1, id=name, priority=priority)
    await submit_at(database, 2 * 3600.0 + 100.0, "urgent")
    await submit_at(database, 99.0, "old")
    await submit_at(database, 3601.0, "older")

    batches = [await store.limits.release("breaker:mail", 1) for _ in range(3)]

    assert [each.id for batch in batches for each in batch] == ["older", "old", "urgent"]


async def test_only_keys_of_this_holder_are_released(store: Store, database: Database) -> None:
    [mine] = await held(store, 1)
    [other] = await held(store, 1, "other")

    assert await store.limits.release("breaker:mail", 0) == []
    assert [each.id for each in await store.limits.release("breaker:mail", 10)] == [mine]

    assert await column(database, mine, "place", "held_by", "state") == ("ready", None, "PENDING")
    assert await column(database, other, "place", "held_by") == ("held", "other")
    [claim] = await store.leases.claim("default", 10, holder())
    assert (claim.id, claim.attempt) == (mine, 1)


async def test_a_release_may_be_limited_to_queues_and_workflows(store: Store) -> None:
    [mine] = await held(store, 1, queue="express")
    [other] = await held(store, 1)

    async def released(queues: Sequence[str], workflows: Sequence[str] | None) -> list[str]:
        released = await store.limits.release("breaker:mail", 10, queues=queues, workflows=workflows)
        return [each.id for each in released]

    assert await released(["slow"], None) == []
    assert await released(["express"], ["other"]) == []
    assert await released(["express", "slow"], ["greet", "other"]) == [mine]
    assert await released(["default"], None) == [other]


async def test_a_suspect_is_released_to_be_alone(store: Store, database: Database) -> None:
    claim = await claimed(store)
    await store.records.record([Record(rescheduled(claim, place="alone", isolation=1))])
    [alone] = await store.leases.claim_alone("default", holder())
    await store.records.record([Record(parked(alone))])

    assert len(await store.limits.release("breaker:mail", 10)) == 1

    assert await column(database, claim.id, "place") == "alone"


async def test_concurrent_releases_release_each_run_once(store: Store, database: Database) -> None:
    ids = await held(store, 20)
    others = [Store(database.another()) for _ in range(3)]

    answers = await asyncio.gather(*[other.limits.release("breaker:mail", 20) for other in others])

    assert sorted(each.id for answer in answers for each in answer) == sorted(ids)
    for other in others:
        await other.close()


# Limits


async def taken(store: Store, maxima: dict[str, int], wanted: int = 1) -> bool:
    """Read, decide and write, as the gate does."""
    async with store.database.transaction() as session:
        free = await store.limits.lock_limits(session, maxima)
        await asyncio.sleep(0)
        if min(free.values()) < wanted:
            return False
        rows = [LimitRow(name, maximum, maximum - free[name] + wanted) for name, maximum in maxima.items()]
        await store.limits.save_limits(session, rows)
        return True


async def limits(database: Database) -> list[tuple[Any, ...]]:
    return await ask(database, "SELECT name, maximum, in_use FROM redrive.limits ORDER BY name")


async def test_slots_are_taken_until_none_is_left(store: Store, database: Database) -> None:
    assert [await taken(store, {"mail": 2}) for _ in range(3)] == [True, True, False]

    assert await limits(database) == [("mail", 2, 2)]
    await held(store, 3, "limit:mail")
    assert await store.limits.limits_with_room() == []
    await ask(database, "UPDATE redrive.limits SET in_use = 1")
    assert await store.limits.limits_with_room() == [("mail", 1)]


async def test_unused_counters_are_removed(store: Store, database: Database) -> None:
    for name in ("used", "waited for", "idle"):
        await taken(store, {name: 2})
    await ask(database, "UPDATE redrive.limits SET in_use = 0 WHERE name <> 'used'")
    await held(store, 1, "limit:waited for")

    await store.limits.forget_limits()

    assert [row[0] for row in await limits(database)] == ["used", "waited for"]


async def test_the_maximum_may_change(store: Store, database: Database) -> None:
    await taken(store, {"mail": 5}, 4)

    async with database.transaction() as session:
        assert await store.limits.lock_limits(session, {"mail": 3}) == {"mail": -1}
    assert await taken(store, {"mail": 9}) is True
    assert await limits(database) == [("mail", 9, 5)]


async def test_a_transaction_that_fails_takes_no_slot(store: Store, database: Database) -> None:
    await taken(store, {"mail": 5})
    with pytest.raises(RuntimeError):
        async with database.transaction() as session:
            await store.limits.lock_limits(session, {"mail": 5, "fax": 1})
            await store.limits.save_limits(session, [LimitRow("mail", 5, 2)])
            raise RuntimeError

    assert await limits(database) == [("mail", 5, 1)]


async def test_concurrent_callers_never_take_more_tokens_than_exist(store: Store, database: Database) -> None:
    """Callers name several limits in any order, and never deadlock."""
    others = [Store(database.another()) for _ in range(4)]

    async def take(other: Store, maxima: dict[str, int]) -> int:
        return sum([await taken(other, maxima) for _ in range(5)])

    forwards, backwards = {"a": 11, "b": 100}, {"b": 100, "a": 11}
    counts = await asyncio.gather(
        *[take(other, maxima) for other, maxima in zip(others, [forwards, backwards] * 2, strict=True)]
    )

    assert sum(counts) == 11
    assert await limits(database) == [("a", 11, 11), ("b", 100, 11)]
    for other in others:
        await other.close()


# Breakers


async def add_one(store: Store, name: str) -> None:
    async with store.database.transaction() as session:
        row = await store.limits.lock_breaker(session, name)
        await asyncio.sleep(0)
        await store.limits.save_breaker(session, row._replace(body=row.body + "x", released=row.released + 1))


async def test_a_breaker_is_made_when_it_is_first_needed(store: Store, database: Database) -> None:
    assert await store.limits.breaker("mail") is None
    async with database.transaction() as session:
        row = await store.limits.lock_breaker(session, "mail")
        await store.limits.save_breaker(
            session, row._replace(body='{"state":"open"}', closed_at=5.0, released=7)
        )
    assert (row.name, row.body, row.closed_at, row.released) == ("mail", "{}", None, 0)
    assert row.updated_at == row.now

    found = await store.limits.breaker("mail")

    assert found is not None
    assert found[:4] == ("mail", '{"state":"open"}', 5.0, 7)
    assert row.now == found.updated_at <= found.now
    async with database.transaction() as session:
        await store.limits.lock_breaker(session, "fax")
    assert [each.name for each in await store.limits.breakers()] == ["fax", "mail"]


@pytest.mark.parametrize("exists", [True, False])
async def test_concurrent_changes_of_a_breaker_are_all_kept(
    store: Store, database: Database, exists: bool
) -> None:
    if exists:
        async with database.transaction() as session:
            await store.limits.lock_breaker(session, "mail")
    others = [Store(database.another()) for _ in range(4)]

    async def change(other: Store) -> None:
        for _ in range(5):
            await add_one(other, "mail")

    await asyncio.gather(*map(change, others))

    row = await store.limits.breaker("mail")
    assert row is not None
    assert (row.released, row.body) == (20, "{}" + "x" * 20)
    for other in others:
        await other.close()


async def test_concurrent_changes_over_one_object_are_all_kept(store: Store) -> None:
    await asyncio.gather(*[add_one(store, "mail") for _ in range(10)])

    row = await store.limits.breaker("mail")
    assert row is not None
    assert row.released == 10


# Queues


async def test_pausing_and_resuming(store: Store) -> None:
    assert await store.limits.queues() == []
    await store.limits.pause("mail", "ada", "deployment")
    await store.limits.pause("mail", "bob", "it's broken")
    await store.limits.resume("unknown")

    [paused] = await store.limits.queues()
    assert (paused.name, paused.paused_by, paused.reason) == ("mail", "bob", "it's broken")
    assert paused.paused_at is not None
    await store.limits.resume("mail")

    assert await store.limits.queues() == [("mail", None, None, None)]


async def test_a_pause_stops_neither_running_work_nor_due_work(store: Store, database: Database) -> None:
    claim = await claimed(store)
    await store.limits.pause("default", "ada", "")

    assert places(await store.records.record([Record(rescheduled(claim, delay=-1.0))])) == {
        claim.id: "waiting"
    }
    assert await store.leases.promote(10) == ["default"]
    assert await store.leases.claim("default", 10, holder()) == []
    assert await column(database, claim.id, "place") == "ready"


# Workers


async def test_heartbeats(store: Store) -> None:
    await store.limits.heartbeat("w1", "v1", '["default"]', 10, 0, "running")
    [first] = await store.limits.workers()
    await asyncio.sleep(0.002)
    await store.limits.heartbeat("w1", "v1", '["default"]', 10, 7, "stopping")
    await store.limits.heartbeat("w2", "v2", '["mail"]', 5, 1, "running")

    again, other = await store.limits.workers()

    assert (first.id, first.code_version, first.queues) == ("w1", "v1", '["default"]')
    assert (first.concurrency, first.in_flight, first.state) == (10, 0, "running")
    assert first.started_at == first.seen_at <= first.now
    assert (again.id, again.in_flight, again.state, again.started_at) == (
        "w1",
        7,
        "stopping",
        first.started_at,
    )
    assert again.seen_at > first.seen_at
    assert (other.id, other.concurrency) == ("w2", 5)


async def test_workers_that_were_not_seen_for_long_are_forgotten(store: Store, database: Database) -> None:
    await store.limits.heartbeat("old", "v1", "[]", 1, 0, "running")
    await store.limits.heartbeat("new", "v1", "[]", 1, 0, "running")
    await ask(database, "UPDATE redrive.workers SET seen_at = :now - 100 WHERE id = 'old'")

    await store.limits.forget_workers(200.0)
    assert await value(database, "SELECT count(*) FROM redrive.workers") == 2
    await store.limits.forget_workers(50.0)

    assert [worker.id for worker in await store.limits.workers()] == ["new"]


async def test_looking_changes_nothing(store: Store, database: Database) -> None:
    await held(store, 2)
    before = await tables(database)

    await store.limits.holders()
    await store.limits.count_held("breaker:mail")
    await store.limits.limits_with_room()
    await store.limits.breaker("mail")
    await store.limits.breakers()
    await store.limits.queues()
    await store.limits.workers()

    assert await tables(database) == before
