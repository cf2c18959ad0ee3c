"""The outbox: each entry is delivered at least once, by one process at a time, in its newest version."""

from __future__ import annotations

import pytest
from tests.store.build import ask

from redrive.model.stream import OutboxEntry
from redrive.store.database import Database
from redrive.store.store import Store


def entry(key: str = "one", version: int = 1, org: str = "default") -> OutboxEntry:
    return OutboxEntry("search", org, key, version, f'{{"version":{version}}}')


async def put(store: Store, *entries: OutboxEntry) -> None:
    async with store.database.transaction() as session:
        await store.outbox.put(session, entries)


async def take(store: Store, token: int, *, seconds: float = 60.0, most: int = 10) -> list[OutboxEntry]:
    return await store.outbox.take("search", "default", token, lease_seconds=seconds, most=most)


async def test_what_is_delivered_is_removed(database: Database) -> None:
    store = Store(database)
    await put(store, entry("one"), entry("two"))
    taken = await take(store, 1)
    await store.outbox.remove(taken, 1)

    assert taken == [entry("one"), entry("two")]
    assert await store.outbox.count("search", "default") == 0


async def test_a_transaction_that_is_rolled_back_puts_nothing(database: Database) -> None:
    store = Store(database)
    with pytest.raises(ZeroDivisionError):
        async with store.database.transaction() as session:
            await store.outbox.put(session, [entry()])
            raise ZeroDivisionError

    assert await take(store, 1) == []


async def test_an_entry_is_taken_by_one_process_until_its_lease_expires(database: Database) -> None:
    store = Store(database)
    await put(store, entry())

    assert await take(store, 1) == [entry()]
    assert await take(store, 2) == []
    await ask(database, "UPDATE redrive.outbox SET available_at = 0")
    assert await take(store, 2) == [entry()]


async def test_a_process_that_lost_its_lease_removes_nothing(database: Database) -> None:
    store = Store(database)
    await put(store, entry())
    old = await take(store, 1, seconds=-1.0)
    await take(store, 2)
    await store.outbox.remove(old, 1)

    assert await store.outbox.count("search", "default") == 1


async def test_a_newer_version_outlives_the_delivery_of_an_older_one(database: Database) -> None:
    store = Store(database)
    await put(store, entry())
    taken = await take(store, 1)
    await put(store, entry(version=2))
    assert await take(store, 1) == [entry(version=2)]
    await store.outbox.remove(taken, 1)

    assert await store.outbox.count("search", "default") == 1


async def test_an_older_version_changes_nothing(database: Database) -> None:
    store = Store(database)
    await put(store, entry(version=2))
    await put(store, entry(version=1))

    assert await take(store, 1) == [entry(version=2)]


async def test_a_batch_takes_the_oldest_and_no_more_than_asked(database: Database) -> None:
    store = Store(database)
    for key in ("c", "a", "b"):
        await put(store, entry(key))
        await ask(database, "UPDATE redrive.outbox SET available_at = available_at - 1")

    assert [found.key for found in await take(store, 1, most=2)] == ["a", "c"]
    assert [found.key for found in await take(store, 2, most=2)] == ["b"]


async def test_topics_and_orgs_are_apart(database: Database) -> None:
    store = Store(database)
    await put(store, entry(), entry(org="acme"), entry()._replace(topic="mail"))

    assert await take(store, 1) == [entry()]
