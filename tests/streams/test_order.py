"""Ordered projectors: one reader at a time, and runs in the order of the stream whatever happens (I4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.workbench import PATIENCE
from tests.events.conftest import Site
from tests.streams.conftest import Broker, Orders, until
from tests.streams.test_consumer import _acknowledged, _is_done
from tests.streams.test_invalid_entries import AT_ONCE

from redrive.errors import LeaseLostError
from redrive.events import Event, StreamEntry
from redrive.events.entry import default_event
from redrive.model.stream import ProjectionStatus
from redrive.parts import parts_of
from redrive.streams.commands import StreamCommands


def ordered(site: Site, broker: Broker, **options: Any) -> Orders:
    return Orders(site, broker, **{"retry": AT_ONCE, "idle_seconds": 1.0, **options}).project(
        ordered_by="user"
    )


async def test_events_are_projected_in_the_order_of_the_stream(site: Site, broker: Broker) -> None:
    orders = ordered(site, broker, batch=7)
    await broker.add(*range(1, 41))
    async with orders.consuming(3):
        await until(lambda: _is_done(orders, broker, 40))
        await orders.work_off()

    assert orders.seen == list(range(1, 41))


async def test_events_with_different_values_do_not_wait_for_each_other(site: Site, broker: Broker) -> None:
    orders = ordered(site, broker)
    await broker.add(1, 2, user="ana")
    await broker.add(3, 4, user="bob")
    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 4))
    ready = await _count(orders, "SELECT count(*) FROM redrive.runs WHERE place = 'ready'")
    parked = await _count(orders, "SELECT count(*) FROM redrive.runs WHERE place = 'waiting'")

    assert (ready, parked) == (2, 2)


async def test_events_behind_an_undecided_entry_wait_for_it_and_keep_their_order(
    site: Site, broker: Broker
) -> None:
    is_broken = True

    def read(entry: StreamEntry) -> Event:
        if entry.message_id == "3-0" and is_broken:
            raise ValueError("not yet")
        return default_event(entry)

    slow = AT_ONCE.__class__(name="slow", max_attempts=1_000, backoff=AT_ONCE.backoff)
    orders = ordered(site, broker, map=read, retry=slow, batch=4)
    await broker.add(*range(1, 10))
    async with orders.consuming():
        await until(lambda: _has_events(orders, 8))
        assert await orders.work_off() == [1, 2]
        waiting = await orders.app.events().projections(await _id_of(orders, 4))
        assert [record.status for record in waiting] == [ProjectionStatus.WAITING]
        is_broken = False
        await until(lambda: _is_done(orders, broker, 9))
        await until(lambda: _waits_no_more(orders))
        await orders.work_off()

    assert orders.seen == list(range(1, 10))


async def test_successors_of_a_dead_entry_proceed(site: Site, broker: Broker) -> None:
    orders = ordered(site, broker)
    await broker.add(1)
    await broker.client.xadd("orders", {"a": "b"}, id="2-0")
    await broker.add(3, 4)
    async with orders.consuming():
        await until(orders.letters)
        await until(lambda: _is_done(orders, broker, 3))
        await until(lambda: _waits_no_more(orders))
        await orders.work_off()

    assert orders.seen == [1, 3, 4]


@pytest.mark.parametrize(("after_failure", "seen"), [("wait", []), ("proceed", [2, 3])])
async def test_successors_of_a_dead_projection_wait_or_proceed_as_declared(
    site: Site, broker: Broker, after_failure: str, seen: list[int]
) -> None:
    orders = Orders(site, broker)

    @orders.stream.projector("fragile", ordered_by="user", after_failure=after_failure, max_attempts=1)
    async def fragile(event: Event) -> None:
        if event.payload["n"] == 1:
            raise ValueError("broken")
        orders.seen.append(event.payload["n"])

    await broker.add(1, 2, 3)
    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 3))
        await orders.work_off()

    assert orders.seen == seen


async def test_another_consumer_becomes_the_reader_when_the_reader_dies_and_decides_its_entries_first(
    site: Site, broker: Broker
) -> None:
    orders = ordered(site, broker, idle_seconds=0.3)
    await broker.add(*range(1, 6))
    control = parts_of(orders.app).stream_control(orders.stream)
    await orders.app.open()
    await control.state()
    dead = StreamCommands(orders.stream, "dead")
    await dead.create_group()
    assert await control.take_reader("dead", control.new_lease())
    assert len(await dead.read(3, None)) == 3  # and then it dies

    async with orders.consuming(4):
        await until(lambda: _is_done(orders, broker, 5))
        await until(lambda: _waits_no_more(orders))
        await orders.work_off()
    await dead.close()

    assert orders.seen == [1, 2, 3, 4, 5]


async def test_a_reader_that_lost_its_lease_stores_nothing_i4(site: Site, broker: Broker) -> None:
    orders = ordered(site, broker)
    control = parts_of(orders.app).stream_control(orders.stream)
    await orders.app.open()
    await control.state()
    old, new = control.new_lease()._replace(seconds=-1.0), control.new_lease()
    assert await control.take_reader("old", old)
    assert await control.take_reader("new", new)
    ingest = orders.consumer()._ingest
    event = ingest.prepare(StreamEntry("1-0", {b"type": b"order.paid", b"id": b"1"}))

    with pytest.raises(LeaseLostError):
        await ingest.store([event], old)
    assert await orders.events() == []
    await ingest.store([event], new)
    assert len(await orders.events()) == 1


async def test_a_second_consumer_does_not_become_reader_while_the_lease_runs(
    site: Site, broker: Broker
) -> None:
    orders = ordered(site, broker)
    control = parts_of(orders.app).stream_control(orders.stream)
    await orders.app.open()
    await control.state()

    first = control.new_lease()
    assert await control.take_reader("one", first)
    assert not await control.take_reader("two", control.new_lease())
    assert await control.take_reader("one", first)
    await control.release_reader(first)
    assert await control.take_reader("two", control.new_lease())


async def test_a_frozen_reader_that_thaws_changes_no_order(
    site: Site, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four consumers, the reader freezes between its read and its transaction until it was replaced."""
    orders = ordered(site, broker, idle_seconds=0.2, batch=5)
    await broker.add(*range(1, 11))
    frozen, thawed = asyncio.Event(), asyncio.Event()
    await orders.app.open()
    first = orders.consumer()
    store = first._ingest.store

    async def freeze(*arguments: Any) -> Any:
        frozen.set()
        await thawed.wait()
        monkeypatch.setattr(first._ingest, "store", store)
        return await store(*arguments)

    monkeypatch.setattr(first._ingest, "store", freeze)
    running = asyncio.create_task(first.run())
    async with asyncio.timeout(PATIENCE):
        await frozen.wait()
        async with orders.consuming(3):
            await until(lambda: _has_events(orders, 10))
            await broker.add(*range(11, 21))
            thawed.set()
            await until(lambda: _is_done(orders, broker, 20))
            await until(lambda: _waits_no_more(orders))
        first.stop()
        await running
    await until(lambda: _acknowledged(broker, None))
    await orders.work_off()

    assert orders.seen == list(range(1, 21))


async def _count(orders: Orders, text: str) -> int:
    from tests.store.build import ask

    [[number]] = await ask(parts_of(orders.app).database, text)
    return int(number)


async def _has_events(orders: Orders, number: int) -> bool:
    return len(await orders.events()) >= number


async def _id_of(orders: Orders, number: int) -> str:
    return next(event.id for event in await orders.events() if event.payload == {"n": number})


async def _waits_no_more(orders: Orders) -> bool:
    return await orders.consumer()._ingest.count_waiting() == 0
