"""Failures of Redis: the consumer reports each of them, and goes on after it. None of them ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions
from tests.cases import loop_over
from tests.events.conftest import Site
from tests.servers import MortalRedis, mortal_redis, redis_server
from tests.streams.conftest import KEY, Broker, Orders, until
from tests.streams.test_consumer import _acknowledged, _is_done
from tests.streams.test_invalid_entries import AT_ONCE

from redrive import Redrive
from redrive.errors import InvalidValueError, RedriveError
from redrive.model.stream import StreamPosition
from redrive.streams.client import connect, problem
from redrive.streams.commands import GroupPosition, beside
from redrive.streams.monitor import is_gap
from redrive.words.fact import text_of


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Broker]:
    client = redis.asyncio.Redis.from_url(url)
    try:
        yield Broker(url, client)
    finally:
        await client.aclose()


@pytest.fixture
def mortal() -> Iterator[MortalRedis]:
    with mortal_redis() as server:
        yield server


@pytest.fixture
def durable() -> Iterator[MortalRedis]:
    with mortal_redis("--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


async def _has_problem(orders: Orders, code: str) -> Any:
    error = (await orders.state()).last_error
    return error is not None and error.code == code


async def test_a_redis_that_cannot_be_reached_is_reported_and_waited_for(
    site: Site, mortal: MortalRedis
) -> None:
    async with client_of(mortal.url) as broker:
        orders = Orders(site, broker).project()
        mortal.kill()
        async with orders.consuming():
            await until(lambda: _has_problem(orders, "redis_unreachable"))
            mortal.start()
            await broker.reconnect()
            await broker.add(1)
            await until(lambda: _is_done(orders, broker, 1))


async def test_with_its_log_a_killed_redis_loses_nothing(site: Site, durable: MortalRedis) -> None:
    async with client_of(durable.url) as broker:
        orders = Orders(site, broker).project()
        async with orders.consuming(2):
            await broker.add(*range(1, 21))
            durable.kill()
            await until(lambda: _has_problem(orders, "redis_unreachable"))
            durable.start()
            await broker.reconnect()
            await broker.add(*range(21, 41))
            await until(lambda: _is_done(orders, broker, 40))

        state = await orders.state()
        assert (state.generation, state.known_gaps) == (1, [])


async def test_a_redis_that_comes_back_empty_starts_a_generation_and_is_reported_as_a_gap(
    site: Site, mortal: MortalRedis
) -> None:
    async with client_of(mortal.url) as broker:
        orders = Orders(site, broker, dedupe_by="entry_id").project()
        async with orders.consuming():
            await broker.add(1, 2)
            await until(lambda: _is_done(orders, broker, 2))
            await until(lambda: _has_reached(orders, 2))
            mortal.kill()
            mortal.start()
            await broker.reconnect()
            await broker.add(2, 3)  # the same ids again, for other entries
            await until(lambda: _is_generation(orders, 2))
            await until(lambda: _is_done(orders, broker, 4))

        [gap] = (await orders.state()).known_gaps
        assert (gap.generation, gap.after) == (1, "2-0")
        assert {event.dedupe_key for event in await orders.events()} == {"1:1-0", "1:2-0", "2:2-0", "2:3-0"}


async def _has_reached(orders: Orders, number: int) -> bool:
    return (await orders.state()).last_position == StreamPosition(number, 0).text


async def _is_generation(orders: Orders, number: int) -> bool:
    return (await orders.state()).generation == number


async def test_a_stream_that_only_lost_its_identity_stays_the_same_generation(
    site: Site, broker: Broker
) -> None:
    orders = Orders(site, broker)
    async with orders.consuming():
        await broker.add(1)
        await until(lambda: _has_reached(orders, 1))
    await broker.client.delete(f"{{{KEY}}}.redrive")
    async with orders.consuming():
        await broker.add(2)
        await until(lambda: _is_done(orders, broker, 2))

    assert (await orders.state()).generation == 1


@pytest.mark.parametrize("removed", ["group", "stream"])
async def test_a_missing_group_or_stream_is_created_again(site: Site, broker: Broker, removed: str) -> None:
    orders = Orders(site, broker).project()
    async with orders.consuming():
        await broker.add(1)
        await until(lambda: _is_done(orders, broker, 1))
        if removed == "group":
            await broker.client.xgroup_destroy(KEY, "redrive")
        else:
            await broker.client.delete(KEY)
        await until(lambda: _has_problem(orders, "redis_group_missing"))
        await broker.add(2)
        await until(lambda: _is_done(orders, broker, 2))

    assert sorted(await orders.work_off()) == [1, 2]


async def test_a_read_only_replica_is_reported_until_it_is_the_primary(site: Site, broker: Broker) -> None:
    with redis_server() as replica:
        async with client_of(replica.url) as other:
            host, port = broker.url.removeprefix("redis://").removesuffix("/0").split(":")
            await other.client.replicaof(host, port)
            orders = Orders(site, other).project()
            async with orders.consuming():
                await until(lambda: _has_problem(orders, "redis_read_only"))
                await other.client.replicaof("no", "one")
                await other.add(1)
                await until(lambda: _is_done(orders, other, 1))


async def test_a_wrong_password_is_reported_without_it(site: Site) -> None:
    with redis_server("--requirepass", "right-password") as server:
        wrong = server.url.replace("redis://", "redis://:wrong-password@")
        async with client_of(server.url.replace("redis://", "redis://:right-password@")) as broker:
            orders = Orders(site, Broker(wrong, broker.client))
            async with orders.consuming():
                await until(lambda: _has_problem(orders, "redis_wrong_password"))
                assert "wrong-password" not in str(await orders.state())
                await broker.client.config_set("requirepass", "wrong-password")
                await broker.client.execute_command("AUTH", "wrong-password")
                await broker.add(1)
                await until(lambda: _acknowledged(broker, 1))


async def test_a_full_redis_is_reported_and_dead_letters_are_mirrored_later(
    site: Site, mortal: MortalRedis
) -> None:
    async with client_of(mortal.url) as broker:
        orders = Orders(site, broker, retry=AT_ONCE).project()
        await broker.client.xadd(KEY, {"a": "b"}, id="1-0")
        await broker.client.config_set("maxmemory", 1)
        async with orders.consuming():
            await until(lambda: _has_problem(orders, "redis_out_of_memory"))
            await broker.client.config_set("maxmemory", 0)
            await until(broker.mirrored)
        assert len(await broker.mirrored()) == 1
        assert len(await orders.letters()) == 1


async def test_a_key_of_another_kind_is_reported(site: Site, broker: Broker) -> None:
    await broker.client.set(KEY, "text")
    orders = Orders(site, broker)
    async with orders.consuming():
        await until(lambda: _has_problem(orders, "redis_wrong_type"))
        await broker.client.delete(KEY)
        await broker.add(1)
        await until(lambda: _is_done(orders, broker, 1))


async def test_entries_that_were_trimmed_unread_are_reported_as_a_gap_with_ids(
    site: Site, broker: Broker
) -> None:
    orders = Orders(site, broker, max_queued=1, batch=2).project()
    async with orders.consuming():
        await broker.add(1, 2)
        await until(lambda: _is_done(orders, broker, 2))
        await until(lambda: _is_held_back(orders))
        await broker.add(*range(3, 11))
        await until(lambda: _has_seen(orders, 10))
        await broker.client.xtrim(KEY, minid="9-0", approximate=False)
        await until(lambda: _has_gaps(orders))
        await orders.work_off()
        await until(lambda: _is_done(orders, broker, 4))

    [gap] = (await orders.state()).known_gaps
    assert (gap.after, gap.before) == ("2-0", "9-0")


async def _is_held_back(orders: Orders) -> bool:
    return (await orders.state()).held_back is not None


async def _has_seen(orders: Orders, number: int) -> bool:
    return (await orders.state()).seen == StreamPosition(number, 0).text


async def _has_gaps(orders: Orders) -> bool:
    return bool((await orders.state()).known_gaps)


async def test_an_entry_that_was_removed_while_it_was_pending_is_a_gap(site: Site, broker: Broker) -> None:
    from redrive.streams.commands import StreamCommands

    orders = Orders(site, broker)
    await broker.add(1, 2)
    dead = StreamCommands(orders.stream, "dead")
    await dead.create_group()
    await dead.read(2, None)
    await dead.close()
    await broker.client.xdel(KEY, "1-0")
    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 1))

    [gap] = (await orders.state()).known_gaps
    assert gap.before == "1-1"


async def test_the_report_says_lag_pending_and_the_oldest_entry(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker)
    await orders.app.streams().pause(KEY)
    await broker.add(5_000, 6_000, 7_000)
    async with orders.consuming():
        await until(lambda: _has_seen(orders, 7_000))
    state = await orders.state()

    assert (state.lag, state.pending, state.oldest_at) == (3, 0, 5.0)


async def test_the_database_may_be_away_for_a_while(
    site: Site, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redrive.errors import StoreUnavailableError

    orders = Orders(site, broker).project()
    await broker.add(1, 2)
    await orders.app.open()
    consumer = orders.consumer()
    store, failures = consumer._ingest.store, 3

    async def fail(*arguments: Any) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StoreUnavailableError("the database is away")
        return await store(*arguments)

    monkeypatch.setattr(consumer._ingest, "store", fail)
    running = asyncio.create_task(consumer.run())
    await until(lambda: _is_done(orders, broker, 2))
    consumer.stop()
    await running

    [] = await broker.client.xpending_range(KEY, "redrive", "-", "+", 10)
    assert sorted(await orders.work_off()) == [1, 2]


# What errors and positions mean


@loop_over(
    ("error", "code"),
    [
        (redis.exceptions.ConnectionError("refused"), "redis_unreachable"),
        (redis.exceptions.TimeoutError("late"), "redis_unreachable"),
        (ConnectionResetError("reset"), "redis_unreachable"),
        (redis.exceptions.BusyLoadingError("loading"), "redis_loading"),
        (redis.exceptions.ReadOnlyError("read only"), "redis_read_only"),
        (redis.exceptions.OutOfMemoryError("oom"), "redis_out_of_memory"),
        (redis.exceptions.AuthenticationError("invalid"), "redis_wrong_password"),
        (redis.exceptions.NoPermissionError("no"), "redis_not_permitted"),
        (redis.exceptions.ResponseError("WRONGTYPE Operation"), "redis_wrong_type"),
        (redis.exceptions.ResponseError("NOGROUP No such key"), "redis_group_missing"),
        (redis.exceptions.ResponseError("ERR no such key"), "redis_group_missing"),
        (redis.exceptions.ResponseError("OOM command not allowed"), "redis_out_of_memory"),
        (redis.exceptions.ResponseError("ERR strange"), "redis_error"),
    ],
)
def test_each_error_has_a_code_and_a_sentence(error: Exception, code: str) -> None:
    found = problem(error)

    assert found.code == code
    assert len(text_of(found)) > len(code)


def at(number: int) -> StreamPosition:
    return StreamPosition(number, 0)


def position(**changes: Any) -> GroupPosition:
    fields: dict[str, Any] = {
        "first": at(9),
        "last": at(10),
        "deleted": None,
        "delivered": at(2),
        "lag": None,
        "length": 2,
        "pending": 0,
    }
    return GroupPosition(**{**fields, **changes})


@loop_over(
    ("where", "unread", "expected"),
    [
        (position(), [], False),
        (position(), [at(5)], True),
        (position(), [at(9)], False),
        (position(first=None, length=0), [at(5)], True),
        (position(first=at(2)), [at(5)], False),
        (position(delivered=at(0)), [at(5)], False),
        (position(deleted=at(5)), [], True),
        (position(deleted=at(2)), [], False),
        (position(deleted=at(0), added=10, read=2), [], True),
        (position(deleted=at(0), added=10, read=8), [], False),
        (position(deleted=at(0), added=10, read=None), [], False),
    ],
)
def test_a_gap_is_what_is_known_to_be_lost(
    where: GroupPosition, unread: list[StreamPosition], expected: bool
) -> None:
    assert is_gap(where, unread) is expected


@loop_over(
    ("key", "expected"),
    [("orders", "{orders}.x"), ("{a}orders", "{a}orders.x"), ("a{}b", None), ("a}b", None)],
)
def test_a_key_beside_a_stream_has_the_same_slot(key: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(InvalidValueError):
            beside(key, ".x")
    else:
        assert beside(key, ".x") == expected


def test_a_client_that_decodes_is_refused() -> None:
    app = Redrive("sqlite://:memory:", log=False)
    url = "redis://localhost"
    stream = app.stream("a", lambda: redis.asyncio.Redis.from_url(url, decode_responses=True))

    with pytest.raises(RedriveError, match="decode_responses=False"):
        connect(stream)
