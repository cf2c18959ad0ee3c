"""What a consumer sees and reports: lag, pending entries, gaps, errors, and whether reading has to pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from redrive.events.control import StreamControl
from redrive.model.fact import Fact, fact
from redrive.model.stream import START, StreamPosition, StreamReport, StreamState, read_position
from redrive.policy.redact import Redactor
from redrive.streams.client import problem
from redrive.streams.commands import GroupPosition, StreamCommands

REPORT_SECONDS = 2.0
RESUME_SHARE = 0.8


class StreamMonitor:
    """The report of one consumer about its stream, and its look at the queues."""

    def __init__(self, control: StreamControl, redactor: Redactor) -> None:
        self._control = control
        self._redactor = redactor
        self._counts: Counter[str] = Counter()
        self._last_position = START
        self._error: Fact | None = None
        self._error_at: float | None = None
        self._held_back: Fact | None = None
        self._reported = control.clock.monotonic()
        self._first_unread: StreamPosition | None = None
        self._added = 0
        self._queued: int | None = None
        self._looked = 0.0

    # What happened

    def count(self, figure: str, number: int = 1) -> None:
        self._counts[figure] += number

    def reached(self, position: StreamPosition) -> None:
        self._last_position = max(self._last_position, position)

    def begin_generation(self) -> None:
        """Forget the position: ids of entries start again."""
        self._last_position, self._first_unread = START, None

    def failed(self, error: BaseException) -> Fact:
        """Note an error as the last one."""
        found = problem(error, self._control.stream.key)
        fields = {name: self._redactor.text(str(value)) for name, value in found.fields.items()}
        return self.report_problem(Fact(found.code, fields))

    def report_problem(self, found: Fact) -> Fact:
        self._error, self._error_at = found, self._control.clock.now()
        return found

    # Whether to read

    async def held_back(self, state: StreamState) -> Fact | None:
        """Return why reading pauses, if it does."""
        if state.paused_at is not None:
            self._held_back = fact("stream_paused", by=state.paused_by or "an operator")
        else:
            self._held_back = await self._backlog()
        return self._held_back

    def hold_back(self, why: Fact | None) -> None:
        self._held_back = why

    def started(self, runs: int) -> None:
        """Count runs that were stored, until the queues are counted again."""
        self._added += runs

    async def _backlog(self) -> Fact | None:
        most = self._control.stream.max_queued
        was_full = self._held_back is not None and self._held_back.code == "stream_backlog"
        limit = int(most * RESUME_SHARE) if was_full else most
        estimate = (self._queued or 0) + self._added
        is_old = self._control.clock.monotonic() > self._looked + 1.0
        if self._queued is None or was_full or (self._added and (estimate > limit or is_old)):
            self._queued, self._added = await self._control.queued(), 0
            self._looked = self._control.clock.monotonic()
        if self._queued + self._added <= limit:
            return None
        return fact("stream_backlog", queued=self._queued + self._added, max_queued=most)

    # Reporting

    def is_due(self) -> bool:
        return self._control.clock.monotonic() >= self._reported + REPORT_SECONDS

    async def report(self, commands: StreamCommands, state: StreamState) -> None:
        """Look at the stream in Redis, find gaps, and store all figures."""
        where = await commands.position()
        await self.find_gap(commands, state, where)
        lag = where.lag if where.lag is not None else await commands.count_after(where.delivered, where)
        oldest = await self._oldest(commands, where)
        await self._store(state, where, lag, oldest)

    async def report_failure(self, state: StreamState) -> None:
        """Store the last error although Redis can't be reached."""
        await self._store(state, None, state.lag, None)

    async def find_gap(self, commands: StreamCommands, state: StreamState, where: GroupPosition) -> bool:
        """Report entries that Redis removed before the group was given them."""
        if not is_gap(where, self._known_unread(state, where)):
            return False
        end = where.last.next if where.first is None else where.first
        return await self._control.add_gap(state.generation, where.delivered.message_id, end.message_id)

    def _known_unread(self, state: StreamState, where: GroupPosition) -> list[StreamPosition]:
        """Return entries after the group's position that existed at an earlier look."""
        seen = [self._first_unread, None if state.seen is None else read_position(state.seen)]
        return [position for position in seen if position is not None and position > where.delivered]

    async def _oldest(self, commands: StreamCommands, where: GroupPosition) -> float | None:
        self._first_unread = await commands.first_after(where.delivered) if where.lag != 0 else None
        pending = await commands.first_pending() if where.pending else None
        found = [position for position in (self._first_unread, pending) if position is not None]
        return min(found).milliseconds / 1000.0 if found else None

    async def _store(
        self, state: StreamState, where: GroupPosition | None, lag: int | None, oldest: float | None
    ) -> None:
        now, counts = self._control.clock.monotonic(), self._counts
        report = StreamReport(
            generation=state.generation,
            last_position=self._last_position.text,
            stored=counts["stored"],
            duplicates=counts["duplicates"],
            dead=counts["dead"],
            taken_over=counts["taken_over"],
            lag=lag,
            pending=None if where is None else where.pending,
            oldest_at=oldest,
            rate=counts["stored"] / max(0.001, now - self._reported),
            held_back=None if self._held_back is None else self._held_back.encode(),
            last_error=None if self._error is None else self._error.encode(),
            error_at=self._error_at,
            seen=None if where is None else where.last.text,
        )
        await self._control.report(report)
        self._counts, self._error, self._error_at, self._reported = Counter(), None, None, now


def is_gap(where: GroupPosition, unread: Sequence[StreamPosition]) -> bool:
    """Return whether entries after the group's position are gone.

    Redis 7 names the last entry that was deleted, and counts those that were added and read. Redis 6 does
    neither: an entry is known to be lost if it was seen before, in `unread`.
    """
    if where.delivered == START or (where.first is not None and where.first <= where.delivered):
        return False
    if where.deleted is not None and where.deleted > where.delivered:
        return True
    if where.added is not None and where.read is not None and where.added - where.length > where.read:
        return True
    return any(where.first is None or position < where.first for position in unread)
