"""A consumer: reads the entries of a stream, stores them, and then acknowledges them.

Nothing is acknowledged before its transaction has committed. An entry that can't be decoded is tried again
while the others proceed, and becomes a dead letter. A consumer that dies leaves its entries pending; another
one takes them over after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

from redrive.clock import Clock
from redrive.errors import InvalidValueError, LeaseLostError, StoreError, StoreUnavailableError
from redrive.events import Stream, StreamEntry
from redrive.events.control import ReaderLease, StreamControl
from redrive.events.ingest import DeadCause, EntryIngest
from redrive.events.mirror import LetterMirror
from redrive.events.recorder import PreparedEvent
from redrive.model.event import StreamFailed, StreamRecovered
from redrive.model.fact import Fact, fact
from redrive.model.stream import MAX_PART, StreamPosition, StreamState, position_of, read_position
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Exponential
from redrive.policy.jitter import Equal
from redrive.policy.redact import Redactor
from redrive.streams.client import connection_errors
from redrive.streams.commands import FIRST_ID, MissingGroupError, StreamCommands
from redrive.streams.invalid_entries import InvalidEntries
from redrive.streams.mirroring import mirror_letters
from redrive.streams.monitor import StreamMonitor
from redrive.words.fact import text_of

RECONNECT = Backoff(Exponential(0.1, 2.0), cap=10.0, jitter=Equal())
BLOCK_MS = 250
PAUSE_SECONDS = 0.25
CRASHES = 2
"""Deliveries beyond the budget before an entry counts as the one that kills its consumers."""
MAX_INVALID_BATCHES = 10
SILENT_SECONDS = 3_600.0
"""After this long, the name of a consumer that left nothing pending is removed from the group."""
END = StreamPosition(MAX_PART, MAX_PART)


class ConsumerParts(NamedTuple):
    """The parts of the application that a consumer uses."""

    control: StreamControl
    ingest: EntryIngest
    mirror: LetterMirror
    redactor: Redactor
    clock: Clock
    random: Random


class Consumer:
    """One consumer of one stream. `run` returns when `stop` is called."""

    def __init__(self, stream: Stream, parts: ConsumerParts) -> None:
        self.stream = stream
        self.name = parts.control.ids.new()
        self.monitor = StreamMonitor(parts.control, parts.redactor)
        self._parts = parts
        self._control = parts.control
        self._ingest = parts.ingest
        self._clock = parts.clock
        self._stop = asyncio.Event()
        self._failures = 0
        self._failed_at = 0.0
        self._state: StreamState | None = None
        self._lease: ReaderLease | None = None
        self._lease_checked = 0.0
        self._invalid = InvalidEntries(stream.retry)
        self._undecided: dict[str, StreamEntry] = {}
        self._may_wait = True
        self._took_over = float("-inf")
        self._takeover_place = FIRST_ID
        self._group_size = max(1, stream.batch // 10)
        self._looked = float("-inf")
        self.problem: Fact | None = None

    def stop(self) -> None:
        """Finish the current batch, then return."""
        self._stop.set()

    async def run(self) -> None:
        """Consume until `stop`. Errors of Redis and of the database are reported and waited out."""
        errors: tuple[type[Exception], ...] = (*connection_errors(), MissingGroupError)
        while not self._stop.is_set():
            try:
                await self._consume()
            except errors as error:
                await self._recover(self.monitor.failed(error))
            except StoreError as error:
                await self._recover(fact("stream_store_unavailable", error=str(error)[:300]))
            except LeaseLostError:
                self._forget()
            except Exception as error:  # noqa: BLE001 — a bug must not end the consumer silently
                text = self._parts.redactor.text(f"{type(error).__name__}: {error}")[:300]
                await self._recover(fact("stream_bug", error=text))

    async def _recover(self, found: Fact) -> None:
        """Report a problem, and wait longer each time."""
        self.problem = self.monitor.report_problem(found)
        with suppress(StoreError):
            self._state = self._state or await self._control.state()
            await self.monitor.report_failure(self._state)
        if not self._failures:
            self._failed_at = self._clock.monotonic()
        self._failures += 1
        wait = RECONNECT.wait(self._failures, draw=self._parts.random.random())
        seconds = 1.0 if wait is None else wait.seconds
        self._control.event_bus.emit(StreamFailed(*self._control.name, found.code, text_of(found), seconds))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _report_recovery(self) -> None:
        if self._failures:
            seconds = self._clock.monotonic() - self._failed_at
            self._control.event_bus.emit(StreamRecovered(*self._control.name, seconds))
        self._failures, self.problem = 0, None

    async def _consume(self) -> None:
        commands = StreamCommands(self.stream, self.name)
        try:
            self._state = await self._prepare(commands)
            self._looked = self._took_over = float("-inf")
            self._takeover_place = FIRST_ID
            self._may_wait = True
            await self._finish_undecided(commands)
            while not self._stop.is_set():
                await self._step(commands)
                self._report_recovery()
            await self.monitor.report(commands, self._state)
            if not len(self._invalid):
                await commands.leave()
        finally:
            await self._give_up_reading()
            with suppress(*connection_errors()):
                await commands.close()

    async def _step(self, commands: StreamCommands) -> None:
        """Do what is due, then read and store one batch."""
        state = await self._look(commands)
        if self.stream.is_ordered and not await self._is_reader(commands):
            self.monitor.hold_back(fact("stream_other_reader"))
            return await self._rest()
        await self._retry_invalid(commands)
        await self._take_over(commands)
        await self._release(commands)
        why = await self.monitor.held_back(state)
        if why is None and len(self._invalid) > MAX_INVALID_BATCHES * self.stream.batch:
            why = fact("stream_many_invalid", entries=len(self._invalid))
            self.monitor.hold_back(why)
        if why is not None:
            return await self._rest()
        entries = await commands.read(self.stream.batch, self._block_ms())
        if entries:
            await self._process(commands, entries)
        return None

    async def _rest(self) -> None:
        wait = self._invalid.wait(self._clock.monotonic())
        with suppress(TimeoutError):
            seconds = PAUSE_SECONDS if wait is None else min(PAUSE_SECONDS, wait)
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _block_ms(self) -> int:
        """Return how long a read may wait, so that retries, releases and `stop` are not late."""
        if self._takeover_place != FIRST_ID:
            return 1
        wait = self._invalid.wait(self._clock.monotonic())
        return BLOCK_MS if wait is None else max(1, min(BLOCK_MS, int(wait * 1000)))

    # Preparing and looking

    async def _prepare(self, commands: StreamCommands) -> StreamState:
        """Find out which generation of the stream this is, and create its group."""
        state, identity = await self._control.state(), await commands.identity()
        if identity is None and state.identity and await commands.has_group():  # only the key is gone
            identity = await commands.identify(state.identity)
        elif identity is None:
            identity = await commands.identify(self._control.ids.new())
        if identity != state.identity:
            before = state
            state = await self._control.begin_generation(state.identity, identity)
            self.monitor.begin_generation()
            if before.generation > 0:
                await self._report_lost_generation(before)
        await commands.create_group()
        commands.generation = state.generation
        return state

    async def _report_lost_generation(self, before: StreamState) -> None:
        """Report what Redis lost when it came back empty: all that was newer than the last stored entry."""
        after = read_position(before.last_position)
        now = StreamPosition(int(self._clock.now() * 1000), 0)
        await self._control.add_gap(before.generation, after.message_id, now.message_id)

    async def _look(self, commands: StreamCommands) -> StreamState:
        """Report every few seconds, mirror dead letters, and read the shared state."""
        if self._state is None or self.monitor.is_due() or self._looked == float("-inf"):
            self._state = await self._control.state()
            if await commands.identity() != self._state.identity:
                self._state = await self._prepare(commands)
            await mirror_letters(self._parts.mirror, commands, self._clock)
            await self.monitor.report(commands, self._state)
            self._looked = self._clock.monotonic()
        return self._state

    # Storing

    async def _process(self, commands: StreamCommands, entries: Sequence[StreamEntry]) -> None:
        """Decode, store and acknowledge entries. Those that fail are tried again later."""
        self._undecided |= {entry.message_id: entry for entry in entries}
        prepared: list[PreparedEvent] = []
        good: list[StreamEntry] = []
        waiting: set[str] = set()
        held = self.stream.is_ordered and await self._is_behind(commands, entries[0])
        for entry in entries:
            try:
                event = self._ingest.prepare(entry)
            except Exception as error:  # noqa: BLE001 — the mapping is the user's code
                await self._failed(commands, entry, error)
                held = held or self.stream.is_ordered
                continue
            prepared.append(event)
            good.append(entry)
            if held:
                waiting.add(event.row.id)
        self._may_wait = self._may_wait or held
        if prepared:
            await self._store(commands, good, prepared, waiting)

    async def _store(
        self,
        commands: StreamCommands,
        entries: Sequence[StreamEntry],
        prepared: Sequence[PreparedEvent],
        waiting: set[str],
    ) -> None:
        try:
            written = await self._ingest.store(prepared, self._lease, waiting)
        except (InvalidValueError, StoreError) as error:
            if isinstance(error, StoreUnavailableError):
                raise
            if len(entries) > 1:  # find the one that the database rejects
                for entry, event in zip(entries, prepared, strict=True):
                    await self._store(commands, [entry], [event], waiting)
                return
            await self._failed(commands, entries[0], error)
            self._may_wait = True
            return
        await commands.acknowledge([entry.message_id for entry in entries])
        for entry in entries:
            self._decided(entry)
        self.monitor.count("stored", len(written.event_ids))
        self.monitor.count("duplicates", len(entries) - len(written.event_ids))
        self.monitor.started(len(written.runs))

    async def _failed(self, commands: StreamCommands, entry: StreamEntry, error: Exception) -> None:
        """Try an entry again later, or make it a dead letter if its attempts are used up."""
        now, draw = self._clock.monotonic(), self._parts.random.random()
        spent = self._invalid.failed(entry, error, now=now, draw=draw)
        if spent is not None:
            await self._bury(commands, entry, DeadCause(error, spent.attempts))

    async def _bury(self, commands: StreamCommands, entry: StreamEntry, cause: DeadCause) -> None:
        if await self._ingest.bury(entry, cause, self._lease):
            self.monitor.count("dead")
        await commands.acknowledge([entry.message_id])
        self._decided(entry)
        await mirror_letters(self._parts.mirror, commands, self._clock)

    async def _retry_invalid(self, commands: StreamCommands) -> None:
        for invalid in self._invalid.due(self._clock.monotonic()):
            await self._process(commands, [invalid.entry])

    async def _finish_undecided(self, commands: StreamCommands) -> None:
        """Process the entries that an outage of Redis or the database has interrupted."""
        interrupted = [
            entry for entry in self._undecided.values() if entry.message_id not in self._invalid.ids
        ]
        if interrupted and (not self.stream.is_ordered or self._lease is not None):
            await self._process(commands, sorted(interrupted, key=lambda entry: entry.position))

    def _decided(self, entry: StreamEntry) -> None:
        self._invalid.decided(entry.message_id)
        self._undecided.pop(entry.message_id, None)
        self.monitor.reached(entry.position)

    def _forget(self) -> None:
        """Leave all undecided entries to the new reader of an ordered stream."""
        self._lease = None
        self._invalid.forget()
        self._undecided.clear()

    # Taking over

    async def _take_over(self, commands: StreamCommands) -> None:
        """Take over a batch of entries of consumers that have been silent for a while, if it is time to look.

        One batch per step, so that many of them don't keep this consumer from reading.
        """
        now, idle = self._clock.monotonic(), self.stream.idle_seconds
        if self._takeover_place == FIRST_ID:
            if now < self._took_over + idle / 2:
                return
            self._took_over = now
            await commands.remove_silent(max(SILENT_SECONDS, 10 * idle))
        self._takeover_place = await self._take_over_batch(commands, idle, self._takeover_place)

    async def _take_over_all(self, commands: StreamCommands) -> None:
        """Take over everything that is pending for the reader before, however short ago it was delivered."""
        place = await self._take_over_batch(commands, 0.0, FIRST_ID)
        while place != FIRST_ID and not self._stop.is_set():
            place = await self._take_over_batch(commands, 0.0, place)

    async def _take_over_batch(self, commands: StreamCommands, idle_seconds: float, place: str) -> str:
        """Process a batch of pending entries. Return where to continue."""
        found = await commands.take_over(idle_seconds, place, self.stream.batch)
        for message_id in found.removed:
            await self._report_removed(commands, message_id)
        own = [message_id for message_id in found.ids if message_id not in self._undecided]
        if own:
            self.monitor.count("taken_over", len(own))
            await self._deliver_again(commands, own)
        return found.next

    async def _deliver_again(self, commands: StreamCommands, ids: Sequence[str]) -> None:
        """Process entries that were delivered before: one of them may have killed its consumer.

        Those that were delivered once are tried in groups, small ones at first, the others alone. So an entry
        that kills its consumer again takes few others along, and is the only one that uses up its deliveries.
        """
        counts = await commands.deliveries(ids)
        for group in groups(ids, counts, self._group_size):
            await self._deliver_chunk(commands, group, counts)
            self._group_size = min(self.stream.batch, 2 * self._group_size)

    async def _deliver_chunk(
        self, commands: StreamCommands, ids: Sequence[str], counts: Mapping[str, int]
    ) -> None:
        entries = await commands.claim(ids)
        gone = set(ids) - {entry.message_id for entry in entries if entry.fields}
        for message_id in sorted(gone, key=position_of):
            await self._report_removed(commands, message_id)
        entries = [entry for entry in entries if entry.fields]
        most = self.stream.retry.max_attempts + CRASHES
        if len(entries) == 1 and counts.get(entries[0].message_id, 1) >= most:
            cause = DeadCause(None, counts[entries[0].message_id])
            await self._bury(commands, entries[0], cause)
        elif entries:
            await self._process(commands, entries)

    async def _report_removed(self, commands: StreamCommands, message_id: str) -> None:
        """Report an entry that Redis removed while it was pending."""
        position = position_of(message_id)
        before, after = position.previous.message_id, position.next.message_id
        await self._control.add_gap(commands.generation, before, after)
        await commands.acknowledge([message_id])

    # Order

    async def _is_reader(self, commands: StreamCommands) -> bool:
        """Be the only reader of an ordered stream; False while another consumer is.

        A new reader first takes over everything that is pending for the one before.
        """
        now = self._clock.monotonic()
        if self._lease is not None and now < self._lease_checked + self._lease.seconds / 3:
            return True
        lease = self._lease or self._control.new_lease()
        if not await self._control.take_reader(self.name, lease):
            self._forget()
            return False
        is_new, self._lease, self._lease_checked = self._lease is None, lease, now
        if is_new:
            self._may_wait = True
            await self._take_over_all(commands)
        return True

    async def _give_up_reading(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(StoreError):
                await self._control.release_reader(lease)

    async def _is_behind(self, commands: StreamCommands, entry: StreamEntry) -> bool:
        """Return whether an earlier entry is undecided: a consumer has it, and has not acknowledged it."""
        if self._may_wait:
            return True
        first = await commands.first_pending()
        return first is not None and first < entry.position

    async def _release(self, commands: StreamCommands) -> None:
        """Start ordered runs that have waited for an earlier entry, if all before it are decided."""
        if not self.stream.is_ordered or self._lease is None or not self._may_wait:
            return
        first = await commands.first_pending()
        before = END if first is None else first
        released = await self._ingest.release(self._lease, commands.generation, before)
        self.monitor.started(released)
        if first is None and not released:
            self._may_wait = False


def groups(ids: Sequence[str], counts: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Put entries that were delivered more than once alone, and the others into groups of up to `most`."""
    group: list[str] = []
    for message_id in ids:
        if counts.get(message_id, 1) > 1:
            if group:
                yield group
            group = []
            yield [message_id]
            continue
        group.append(message_id)
        if len(group) == most:
            yield group
            group = []
    if group:
        yield group
