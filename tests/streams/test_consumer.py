"""A consumer stores first and acknowledges then (G10); what a dead consumer leaves is taken over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.events.conftest import Site
from tests.streams.conftest import KEY, Broker, Orders, until

from redrive import Redrive
from redrive.streams.commands import StreamCommands


async def test_entries_become_events_and_runs_and_are_acknowledged_g10(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker).project()
    await broker.add(1, 2, 3)

    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 3))
    [event] = [event for event in await orders.events() if event.payload == {"n": 2}]

    assert sorted(await orders.work_off()) == [1, 2, 3]
    assert (event.type, event.user, event.dedupe_key, event.message_id) == (
        "order.paid",
        "ana",
        "order-2",
        "2-0",
    )


async def test_a_duplicate_is_stored_once_and_projected_once_g13(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker).project()
    await broker.add(1, 2)
    await broker.add(3, 4, 5, id="order-1")

    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 2))

    assert sorted(await orders.work_off()) == [1, 2]
    assert (await orders.state()).duplicates == 3


async def test_several_consumers_store_each_event_once(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker, batch=3).project()
    await broker.add(*range(1, 61))

    async with orders.consuming(4):
        await broker.add(*range(61, 101))
        await until(lambda: _is_done(orders, broker, 100))

    assert sorted(await orders.work_off()) == list(range(1, 101))


async def test_what_a_dead_consumer_has_read_is_taken_over_and_counted_g10(
    site: Site, broker: Broker
) -> None:
    orders = Orders(site, broker).project()
    await broker.add(1, 2, 3)
    dead = StreamCommands(orders.stream, "dead")
    await dead.create_group()
    assert len(await dead.read(2, None)) == 2
    await dead.close()

    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 3))

    assert (await orders.state()).taken_over == 2
    assert sorted(await orders.work_off()) == [1, 2, 3]


async def test_what_was_stored_but_not_acknowledged_is_stored_once(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker).project()
    await broker.add(1, 2)
    dead = StreamCommands(orders.stream, "dead")
    await dead.create_group()
    entries = await dead.read(2, None)
    ingest = orders.consumer()._ingest
    await orders.app.open()
    await ingest.store([ingest.prepare(entry) for entry in entries])

    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 2))
    await dead.close()

    assert sorted(await orders.work_off()) == [1, 2]


async def test_a_consumer_that_stops_leaves_the_group(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker)
    await broker.add(1)
    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 1))

    assert await broker.client.xinfo_consumers(KEY, "redrive") == []


async def test_an_entry_is_deduplicated_by_its_id_only_if_declared(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker, dedupe_by="entry_id").project()
    await broker.add(1, 2, 3, id="same")

    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 3))

    assert sorted(await orders.work_off()) == [1, 2, 3]
    assert {event.dedupe_key for event in await orders.events()} == {"1:1-0", "1:2-0", "1:3-0"}


async def test_a_function_maps_entries_to_events(site: Site, broker: Broker) -> None:
    from redrive.events import Event, StreamEntry

    def read(entry: StreamEntry) -> Event:
        return Event(type="raw", payload={"n": entry.fields[b"n"][0]}, dedupe_key=entry.message_id)

    orders = Orders(site, broker, map=read).project()
    await broker.client.xadd(KEY, {"n": b"\xff"}, id="1-0")

    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 1))

    assert await orders.work_off() == [255]


async def test_all_fields_are_the_payload_without_a_payload_field(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker)
    fields: dict[Any, Any] = {"type": "raw", "id": "1", "colour": "blue", "bytes": b"\xff\x00"}
    await broker.client.xadd(KEY, fields)

    async with orders.consuming():
        [event] = await until(orders.events)

    assert event.payload == {"colour": "blue", "bytes": {"$base64": "/wA="}}


async def test_events_of_several_orgs_stay_apart_w13(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker, org="acme", orgs=["globex"])
    await broker.add(1, org="acme")
    await broker.add(2, org="globex")
    await broker.add(3)

    async with orders.consuming():
        await until(lambda: _acknowledged(broker, 3))

    async def of(org: str) -> list[int]:
        return sorted(event.payload["n"] for event in await orders.app.events(org=org).list())

    assert (await of("acme"), await of("globex")) == ([1, 3], [2])


async def test_nothing_is_acknowledged_while_the_transaction_is_open_i12(
    site: Site, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(site, broker).project()
    await broker.add(1)
    writing, may_commit = asyncio.Event(), asyncio.Event()
    consumer = orders.consumer()
    write = consumer._ingest._parts.recorder.write

    async def slow(*arguments: Any) -> Any:
        written = await write(*arguments)
        writing.set()
        await may_commit.wait()
        return written

    monkeypatch.setattr(consumer._ingest._parts.recorder, "write", slow)
    await orders.app.open()
    running = asyncio.create_task(consumer.run())
    async with asyncio.timeout(20):
        await writing.wait()
        pending = await broker.pending()
        may_commit.set()
        await until(lambda: _acknowledged(broker, 1))
        consumer.stop()
        await running

    assert pending == 1
    assert await orders.stored() == [1]


async def test_reading_pauses_while_too_many_runs_are_queued(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker, max_queued=10, batch=5).project()
    await broker.add(*range(1, 31))

    async with orders.consuming() as [consumer]:
        await until(lambda: _is_held_back(orders, "stream_backlog"))
        before = len(await orders.events())
        assert 10 < before < 30
        while len(await orders.work_off()) < 30:
            await until(lambda: _has_more(orders, len(orders.seen)))
        await until(lambda: _is_done(orders, broker, 30))
        assert consumer.problem is None

    assert sorted(orders.seen) == list(range(1, 31))


async def test_a_paused_stream_is_not_read_until_it_is_resumed(site: Site, broker: Broker) -> None:
    orders = Orders(site, broker)
    streams = orders.app.streams(by="ana")
    await streams.pause(KEY, reason="migration")
    await broker.add(1)

    async with orders.consuming():
        await until(lambda: _is_held_back(orders, "stream_paused"))
        assert await orders.events() == []
        await streams.resume(KEY)
        await until(lambda: _is_done(orders, broker, 1))

    [resumed, paused] = (await orders.app.failures().audit.list()).entries[:2]
    assert (resumed.action, paused.action, paused.actor) == ("stream.resumed", "stream.paused", "ana")
    assert paused.detail == {"reason": "migration"}


async def _is_done(orders: Orders, broker: Broker, number: int) -> bool:
    return len(await orders.events()) == number and await _acknowledged(broker, None)


async def _acknowledged(broker: Broker, delivered: int | None) -> bool:
    groups = await broker.client.xinfo_groups(KEY) if await broker.client.exists(KEY) else []
    if not groups or groups[0]["pending"]:
        return False
    last = (await broker.client.xinfo_stream(KEY))["last-generated-id"]
    return bool(groups[0]["last-delivered-id"] == last)


async def _is_held_back(orders: Orders, code: str) -> bool:
    held_back = (await orders.state()).held_back
    return held_back is not None and held_back.code == code


async def _has_more(orders: Orders, seen: int) -> bool:
    return len(await orders.events()) > seen


async def test_a_consumer_with_pending_entries_does_not_leave(broker: Broker) -> None:
    stream = Redrive("sqlite://:memory:", log=False).stream(KEY, broker.url)
    await broker.add(1, 2)
    commands = StreamCommands(stream, "one")
    await commands.create_group()
    await commands.read(2, None)
    await commands.leave()
    assert await broker.pending() == 2
    await commands.acknowledge(["1-0", "2-0"])
    await commands.leave()
    await commands.close()

    assert await broker.client.xinfo_consumers(KEY, "redrive") == []
