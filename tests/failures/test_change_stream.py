"""The stream of changes: all watchers of an organization get its events in order, without payloads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

import pytest
from tests.engine.hand_clock import HandClock
from tests.store.build import ask

from redrive.app import Redrive
from redrive.errors import InvalidValueError, StoreError, StoreUnavailableError
from redrive.failures.change_stream import BEAT_SECONDS, FAR_BEHIND, MAX_SUBJECTS, PAGE
from redrive.model.audit import Action, Change, ChangeKind, NewEntry
from redrive.parts import parts_of, rewire
from redrive.settings import Settings
from redrive.store.database import Database, Row
from redrive.store.statement import Statement

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
THREE_LETTERS = """
    INSERT INTO redrive.dead_letter_counts (org, fingerprint, queue, category, redrive, state, number)
    VALUES ('default', 'f', 'q', 'timeout', 'never', 'OPEN', 3)
"""
ONE_LOOK = 1.3
"""Seconds in which the poller polls exactly once."""

MAX_LOOK_LENGTH = 13.0
"""Seconds in which it polls at least once, whatever has happened."""


class Line:
    """A connection to a database that the test can cut."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.cut = False
        self.asked: list[str] = []

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        self.asked.append(statement.sqlite.name)
        if self.cut:
            raise StoreUnavailableError("the line is cut")
        return await self._database.fetch(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


class World:
    def __init__(self, database: Database) -> None:
        self.clock = HandClock()
        self.line = Line(database)
        self.app = Redrive("sqlite://:memory:", settings=Settings(), log=False)
        rewire(self.app, self.line, self.clock, Random(0))

    async def enter(
        self, number: int = 1, subjects: Sequence[str] = (), org: str = "default", **detail: Any
    ) -> None:
        """Append entries to the audit of the organization."""
        ids = [tuple(subjects) or (f"letter {each}",) for each in range(number)]
        entries = [
            NewEntry(org=org, actor="ana", action=Action.DEAD_LETTER_TAGGED, subjects=each, detail=detail)
            for each in ids
        ]
        async with parts_of(self.app).database.transaction() as session:
            await parts_of(self.app).store.audit.append(session, entries)

    @asynccontextmanager
    async def listening(
        self, org: str = "default", after: int | None = None
    ) -> AsyncIterator[AsyncGenerator[Change, None]]:
        """Follow the stream as a new watcher, which receives the counters first."""
        async with aclosing(parts_of(self.app).changes.follow(org, after)) as stream:
            first = await anext(stream)
            assert (first.kind, first.sequence) == (
                ChangeKind.COUNTERS,
                after if after is not None else first.sequence,
            )
            yield stream

    async def next_changes(
        self, stream: AsyncGenerator[Change, None], number: int = 1, step: float = ONE_LOOK
    ) -> list[Change]:
        """Return the next changes; time passes while there are none.

        Heartbeats are skipped: on a slow machine, any number of them may come between two changes.
        """
        found: list[Change] = []
        async with asyncio.timeout(60):
            while len(found) < number:
                change = await self.next_change(stream, step)
                if change.kind is not ChangeKind.BEAT:
                    found.append(change)
        return found

    async def next_change(self, stream: AsyncGenerator[Change, None], step: float = ONE_LOOK) -> Change:
        """Return the next change or heartbeat."""
        waiting = asyncio.ensure_future(anext(stream))
        while not waiting.done():
            passing = asyncio.ensure_future(self.clock.advance(step))
            await asyncio.wait({waiting, passing}, return_when=asyncio.FIRST_COMPLETED)
            passing.cancel()
        return await waiting


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    world = World(database)
    await world.app.open()
    yield world
    parts_of(world.app).changes.close()


async def test_changes_are_sent_without_payloads_and_reasons_i9(world: World) -> None:
    async with world.listening() as stream:
        await world.enter(subjects=["letter 7"], reason="because of Globex", secret=SECRET)

        [entry] = await world.next_changes(stream)

    assert (entry.kind, entry.sequence, entry.action) == (ChangeKind.ENTRY, 1, "dead_letter.tagged")
    assert (entry.subjects, entry.number) == (("letter 7",), 1)
    assert not any(word in repr(entry) for word in ("Globex", SECRET, "ana"))


async def test_the_counters_follow_the_dead_letters_and_breakers(world: World) -> None:
    async with world.listening() as stream, world.listening("acme") as theirs:
        await ask(parts_of(world.app).database, THREE_LETTERS)
        await world.app.breakers(by="ana").force("mail", "OPEN", reason="it is down")

        [entry, counters] = await world.next_changes(stream, 2)
        [others] = await world.next_changes(theirs)

    assert (entry.action, entry.subjects) == ("breaker.forced", ("mail",))
    assert counters.counters == ({"OPEN": 3}, {"mail": "OPEN"})
    assert (others.kind, others.counters) == (ChangeKind.COUNTERS, ({}, {"mail": "OPEN"}))


async def test_changes_of_another_org_are_not_sent_i8(world: World) -> None:
    async with world.listening("acme") as stream:
        await world.enter(3)
        await world.enter(subjects=["mine"], org="acme")

        [entry] = await world.next_changes(stream)

    assert (entry.subjects, entry.sequence) == (("mine",), 1)


async def test_a_listener_continues_where_it_was(world: World) -> None:
    """Last-Event-ID: every later change, once and in order."""
    await world.enter(5)

    async with world.listening(after=2) as stream:
        before = await world.next_changes(stream, 3)
        await world.enter(2)
        after = await world.next_changes(stream, 2)

    assert [each.sequence for each in before + after] == [3, 4, 5, 6, 7]
    assert {each.kind for each in before + after} == {ChangeKind.ENTRY}


async def test_a_new_listener_receives_only_new_changes(world: World) -> None:
    await world.enter(5)

    async with world.listening() as stream:
        await world.enter()
        [entry] = await world.next_changes(stream)

    assert entry.sequence == 6


@pytest.mark.parametrize("after", [0, 10**12])
async def test_a_listener_that_missed_too_much_starts_again(world: World, after: int) -> None:
    await world.enter(FAR_BEHIND + 1)

    async with world.listening(after=after) as stream:
        [reset] = await world.next_changes(stream)
        await world.enter()
        [entry] = await world.next_changes(stream)

    assert (reset.kind, reset.sequence) == (ChangeKind.RESET, FAR_BEHIND + 1)
    assert (entry.kind, entry.sequence) == (ChangeKind.ENTRY, FAR_BEHIND + 2)


async def test_a_thousand_missed_entries_are_sent_separately(world: World) -> None:
    await world.enter(FAR_BEHIND)

    async with world.listening(after=0) as stream:
        found = await world.next_changes(stream, FAR_BEHIND)

    assert [each.sequence for each in found] == list(range(1, FAR_BEHIND + 1))


async def test_a_slow_listener_misses_nothing_and_nothing_is_kept_for_it(world: World) -> None:
    async with world.listening() as slow, world.listening() as quick:
        for number in range(1, 5):
            await world.enter(PAGE - 50)
            found = await world.next_changes(quick, PAGE - 50)
            assert found[-1].sequence == number * (PAGE - 50)

        late = await world.next_changes(slow, 4 * (PAGE - 50))

    entries = [each.sequence for each in late if each.kind is ChangeKind.ENTRY]
    assert entries == list(range(1, 4 * (PAGE - 50) + 1))


async def test_more_at_once_than_is_read_at_once(world: World) -> None:
    async with world.listening() as stream:
        await world.enter(3 * PAGE)
        found = await world.next_changes(stream, 3 * PAGE)

    assert [each.sequence for each in found] == list(range(1, 3 * PAGE + 1))


async def test_of_many_subjects_the_first_are_named_and_all_counted(world: World) -> None:
    subjects = [f"letter {number}" for number in range(MAX_SUBJECTS + 150)]
    async with world.listening() as stream:
        await world.enter(subjects=subjects)
        [entry] = await world.next_changes(stream)

    assert entry.subjects == tuple(subjects[:MAX_SUBJECTS])
    assert entry.number == len(subjects)


async def test_a_damaged_entry_is_sent_and_a_removed_one_does_not_stop_the_rest(world: World) -> None:
    await world.enter(6, subjects=["a", "b"])
    await ask(
        parts_of(world.app).database, "UPDATE redrive.audit SET subjects = 'no json' WHERE sequence = 2"
    )
    await ask(parts_of(world.app).database, "DELETE FROM redrive.audit WHERE sequence IN (3, 4)")

    async with world.listening(after=1) as stream:
        found = await world.next_changes(stream, 3)

    assert [(each.sequence, each.number) for each in found] == [(2, 0), (5, 2), (6, 2)]


async def test_without_changes_there_are_heartbeats(world: World) -> None:
    async with world.listening() as stream:
        beat = await world.next_change(stream)

    assert (beat.kind, beat.counters) == (ChangeKind.BEAT, None)
    assert world.clock.time >= BEAT_SECONDS


async def test_an_outage_of_the_database_is_survived(world: World) -> None:
    async with world.listening() as stream, world.listening(after=0) as other:
        world.line.cut = True
        beat = await world.next_change(stream, MAX_LOOK_LENGTH)
        asked = world.line.asked.count("after")
        world.line.cut = False
        await world.enter(2)

        found = await world.next_changes(stream, 2, step=MAX_LOOK_LENGTH)
        others = await world.next_changes(other, 2)

    assert beat.kind is ChangeKind.BEAT
    assert asked > 0, "it was not looked at all in the meantime"
    assert [change.sequence for change in found] == [1, 2]
    assert [change.sequence for change in others] == [1, 2]


async def test_callers_during_an_outage_get_an_error(world: World) -> None:
    world.line.cut = True

    with pytest.raises(StoreError):
        await anext(parts_of(world.app).changes.follow("default"))

    assert parts_of(world.app).changes.watched == frozenset()


async def test_one_poller_serves_all_listeners_and_only_while_there_are_any(world: World) -> None:
    async with world.listening() as first, world.listening() as second:
        await world.enter()
        before = world.line.asked.count("after")
        [one] = await world.next_changes(first)
        looks = world.line.asked.count("after") - before
        [two] = await world.next_changes(second)

        assert one == two
        assert looks == 1
        assert parts_of(world.app).changes.watched == {"default"}

    assert parts_of(world.app).changes.watched == frozenset()
    await asyncio.sleep(0)
    assert world.clock.sleeping == 0


async def test_closing_ends_all_listeners(world: World) -> None:
    async with world.listening() as stream, world.listening("acme") as other:
        waiting = [asyncio.ensure_future(anext(each)) for each in (stream, other)]
        await world.clock.advance(ONE_LOOK)

        parts_of(world.app).changes.close()

        async with asyncio.timeout(60):
            ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, StopAsyncIteration) for each in ended)


async def test_a_place_that_is_none_is_refused(world: World) -> None:
    places: list[Any] = [-1, 2**63, 1.5, "7", True]
    for after in places:
        with pytest.raises(InvalidValueError, match="after must be a whole number"):
            await anext(parts_of(world.app).changes.follow("default", after))
