"""Entries that are no events: retried while others proceed, then dead letters in SQL and `.dlq` (G10–G12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.events.conftest import Site
from tests.streams.conftest import KEY, Broker, Orders, until
from tests.streams.test_consumer import _acknowledged, _is_done

from redrive import RetryPolicy
from redrive.events import Event, StreamEntry
from redrive.events.entry import default_event, entry_from_json
from redrive.model.dead_letter import DeadLetterState
from redrive.parts import parts_of
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Linear
from redrive.streams.commands import StreamCommands
from redrive.streams.mirroring import mirror_letters
from redrive.verify import verify

AT_ONCE = RetryPolicy(name="at once", max_attempts=3, backoff=Backoff(Linear(0.01, 0.01)))


def broken_orders(site: Site, broker: Broker, **options: Any) -> Orders:
    return Orders(site, broker, **{"retry": AT_ONCE, **options}).project()


async def test_an_invalid_entry_becomes_a_dead_letter_while_others_proceed_g10(
    site: Site, broker: Broker
) -> None:
    orders = broken_orders(site, broker)
    await broker.add(1)
    await broker.client.xadd(KEY, {"colour": "blue"}, id="2-0")
    await broker.add(3)

    async with orders.consuming():
        [letter] = await until(orders.letters)
        await until(lambda: _is_done(orders, broker, 2))

    assert sorted(await orders.work_off()) == [1, 3]
    assert letter.state == DeadLetterState.OPEN
    assert (letter.task, letter.attempts, letter.reason) == ("orders: store entry", 1, "not_stored")
    assert letter.metadata == {"source_stream": "orders", "source_message_id": "2-0", "tries": 3}
    assert letter.payload["fields"] == {"colour": "blue"}
    assert "no field 'type'" in letter.message
    assert (await orders.state()).dead == 1
    verdict = await verify(parts_of(orders.app).database)
    assert verdict.sound, str(verdict)


async def test_a_dead_entry_is_mirrored_once_with_the_fields_of_g11(site: Site, broker: Broker) -> None:
    orders = broken_orders(site, broker)
    await broker.client.xadd(KEY, {"password": "hunter22"}, id="2-0")
    async with orders.consuming(2):
        [letter] = await until(orders.letters)
        [mirrored] = await until(broker.mirrored)

    assert mirrored.keys() == {
        *("id", "source_stream", "source_message_id", "payload", "error", "attempts", "last_attempt_at"),
        *("status", "created_at", "updated_at"),
    }
    assert (mirrored["id"], mirrored["source_stream"], mirrored["source_message_id"]) == (
        letter.id,
        "orders",
        "2-0",
    )
    assert (mirrored["attempts"], mirrored["status"]) == ("3", "pending")
    assert "hunter22" not in str(mirrored)  # W14


async def test_a_mirrored_letter_is_not_mirrored_again_after_a_crash_before_the_removal_g11(
    site: Site, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = broken_orders(site, broker)
    await orders.app.open()
    await _bury(orders, StreamEntry("2-0", {b"a": b"b"}))
    commands = StreamCommands(orders.stream, "one")
    mirror = parts_of(orders.app).letter_mirror(orders.stream)
    clock = parts_of(orders.app).clock

    class Killed(Exception):
        pass

    async def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(mirror, "remove", die)
        with pytest.raises(Killed):
            await mirror_letters(mirror, commands, clock)
    assert len(await broker.mirrored()) == 1
    another = parts_of(orders.app).letter_mirror(orders.stream)
    assert await mirror_letters(another, commands, clock) == 0  # the lease of the dead process still runs
    await _end_leases(orders)
    assert await mirror_letters(another, commands, clock) == 1
    await commands.close()

    assert len(await broker.mirrored()) == 1
    assert await parts_of(orders.app).store.outbox.count("stream dead letters: orders", "default") == 0


async def test_an_entry_that_was_buried_but_not_acknowledged_has_one_letter(
    site: Site, broker: Broker
) -> None:
    orders = broken_orders(site, broker)
    await broker.client.xadd(KEY, {"a": "b"}, id="2-0")
    await orders.app.open()
    await _bury(orders, StreamEntry("2-0", {b"a": b"b"}))

    async with orders.consuming(2):
        await until(lambda: _acknowledged(broker, None))
        await until(broker.mirrored)

    assert len(await orders.letters()) == 1
    assert len(await broker.mirrored()) == 1


async def test_an_entry_of_a_foreign_org_is_dead_lettered_in_the_streams_own_w13(
    site: Site, broker: Broker
) -> None:
    orders = broken_orders(site, broker, org="acme", orgs=["globex"])
    await broker.add(1, org="initech")
    async with orders.consuming():
        await until(broker.mirrored)

    async def letters(org: str) -> int:
        return len((await orders.app.failures(org=org).list()).lines)

    assert [await letters(org) for org in ("acme", "globex", "initech")] == [1, 0, 0]
    for org in ("acme", "globex", "initech"):
        assert await orders.app.events(org=org).list() == []


async def test_a_dead_entry_is_stored_and_routed_when_it_is_replayed_g12(site: Site, broker: Broker) -> None:
    is_fixed = False

    def read(entry: StreamEntry) -> Event:
        if not is_fixed:
            raise KeyError("amount")
        return default_event(entry)

    orders = broken_orders(site, broker, map=read)
    await broker.add(1)
    async with orders.consuming():
        [letter] = await until(orders.letters)
        await until(broker.mirrored)
        is_fixed = True
        await orders.app.failures().replay(letter.id)
        assert await orders.work_off() == [1]

    [event] = await orders.events()
    assert (event.dedupe_key, event.message_id) == ("order-1", "1-0")
    assert (await orders.letters())[0].state == DeadLetterState.RESOLVED


async def test_replaying_an_entry_that_was_stored_meanwhile_projects_nothing_again_g12(
    site: Site, broker: Broker
) -> None:
    orders = broken_orders(site, broker)
    await broker.add(1)
    async with orders.consuming():
        await until(lambda: _is_done(orders, broker, 1))
    fields = {b"type": b"order.paid", b"id": b"order-1", b"payload": b'{"n": 1}'}
    await _bury(orders, StreamEntry("9-0", fields))
    [letter] = await orders.letters()
    await orders.app.failures().replay(letter.id)

    assert await orders.work_off() == [1]


async def test_an_oversized_entry_is_a_dead_letter_that_can_be_replayed(site: Site, broker: Broker) -> None:
    orders = broken_orders(site, broker, max_bytes=1_000)
    await broker.add(1, note="x" * 2_000)
    async with orders.consuming():
        [letter] = await until(orders.letters)
    assert "accepts 1,000" in letter.message
    orders.stream.max_bytes = 10_000
    await orders.app.failures().replay(letter.id)

    assert await orders.work_off() == [1]


async def test_an_entry_too_large_for_the_database_is_acknowledged_with_its_size(
    site: Site, broker: Broker
) -> None:
    orders = broken_orders(site, broker)
    await broker.add(1, note="x" * 2_000_000)
    async with orders.consuming():
        [letter] = await until(orders.letters)
        await until(lambda: _acknowledged(broker, None))

    assert letter.payload["fields"] is None
    assert letter.payload["bytes"] > 2_000_000


async def test_binary_fields_are_stored_without_loss(site: Site, broker: Broker) -> None:
    odd: dict[bytes, bytes] = {
        b"\xff": b"\x00\xfe",
        b"text": "ü".encode(),
        b"$base64:": b"\x00",
        b"empty": b"",
    }
    entry = StreamEntry("1-0", odd)

    assert entry_from_json("1-0", entry.to_json(), 1) == entry
    orders = broken_orders(site, broker)
    await broker.client.xadd(KEY, odd, id="1-0")
    async with orders.consuming():
        [letter] = await until(orders.letters)
    assert entry_from_json("1-0", letter.payload["fields"], 1) == entry


async def test_an_entry_that_kills_its_consumers_becomes_a_dead_letter_and_innocents_do_not(
    site: Site, broker: Broker
) -> None:
    orders = broken_orders(site, broker, idle_seconds=0.05, batch=20)
    killer = 5
    await broker.add(*range(1, 11))

    class Killed(BaseException):
        pass

    def kill(entry: StreamEntry) -> Event:
        if entry.message_id == f"{killer}-0":
            raise Killed
        return default_event(entry)

    orders.stream._map = kill
    for _ in range(20):
        consumer = orders.consumer()
        running = asyncio.create_task(consumer.run())
        await until(lambda running=running: _is_over(running, broker))  # type: ignore[misc]
        if not running.done():
            consumer.stop()
            await running
            break
        with pytest.raises(Killed):
            await running
    await until(lambda: _acknowledged(broker, None))

    assert await orders.stored() == [number for number in range(1, 11) if number != killer]
    [letter] = await orders.letters()
    assert letter.metadata["source_message_id"] == "5-0"
    assert letter.reason == "worker_crashed"


async def _is_over(running: asyncio.Task[None], broker: Broker) -> bool:
    return running.done() or await _acknowledged(broker, None)


async def _bury(orders: Orders, entry: StreamEntry) -> None:
    from redrive.events.ingest import DeadCause

    assert await orders.consumer()._ingest.bury(entry, DeadCause(ValueError("wrong"), 3))


async def _end_leases(orders: Orders) -> None:
    from tests.store.build import ask

    await ask(parts_of(orders.app).database, "UPDATE redrive.outbox SET available_at = 0")
