"""The overview of an org: what needs somebody, what heals by itself, and what has come and gone.

Nothing here grows with what is stored. How many dead letters are live, and what has happened to them, is kept
by the database as it happens; runs that wait or are held are counted up to 10,000; runs that have ended are
what workers have told of them (engine.tally), some seconds ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.breakers import HELD_BY_BREAKER
from redrive.failures.trends import beginning, placed
from redrive.model.caller import Caller
from redrive.model.dead_letter import NEEDS_YOU
from redrive.model.field import Instant
from redrive.model.overview import Span
from redrive.model.query import MAX_COUNTED, Count, Order, Query, Term
from redrive.model.run import ENDED_RUNS, RunState
from redrive.model.run import Standing as RunStanding
from redrive.policy.bounds import choice
from redrive.store.store import Store
from redrive.store.tallies import Part

_NEEDS_YOU = Query((Term("is", NEEDS_YOU),))
BETWEEN_ATTEMPTS = Query((Term("is", (RunStanding.WAITING,)), Term("is", (RunState.RUNNING,))))


class NeedsYou(NamedTuple):
    """Dead letters that stay as they are until somebody does something about them."""

    open: int
    exhausted: int

    @property
    def total(self) -> int:
        return self.open + self.exhausted


class HealsItself(NamedTuple):
    """What goes on without anybody. A run that is replayed and waits is counted with both.

    held       runs that wait for breakers
    retrying   runs that wait for their next attempt
    replaying  dead letters whose replay is under way
    scheduled  open dead letters that will be redriven automatically
    """

    held: Count
    retrying: Count
    replaying: int
    scheduled: int

    @property
    def total(self) -> Count:
        number = self.held.number + self.retrying.number + self.replaying + self.scheduled
        return Count(number, self.held.capped or self.retrying.capped)


class Standing(NamedTuple):
    needs_you: NeedsYou
    heals_itself: HealsItself


class OldestLetter(NamedTuple):
    """Of those that need somebody, the one that came first; `seconds` is its age."""

    id: str
    title: str
    created_at: Instant
    seconds: float


class ReplayRecord(NamedTuple):
    """`rate` is the part that has succeeded; None as long as none has ended."""

    succeeded: int
    failed: int

    @property
    def rate(self) -> float | None:
        ended = self.succeeded + self.failed
        return self.succeeded / ended if ended else None


class Overview(NamedTuple):
    """Numbers over time are one for each part, of `width` seconds from `start` on; the last is under way.

    came  dead letters that were written or reopened
    left  dead letters that were closed or removed
    runs  those that have ended, by state; all states are there
    """

    span: Span
    now: Instant
    start: Instant
    width: float
    standing: Standing
    oldest: OldestLetter | None
    came: tuple[int, ...]
    left: tuple[int, ...]
    replays: ReplayRecord
    runs: Mapping[RunState, tuple[int, ...]]

    @property
    def moments(self) -> tuple[float, ...]:
        """When each part begins."""
        return tuple(self.start + number * self.width for number in range(len(self.came)))


class OverviewQueries:
    """`store` is that of the caller's org."""

    def __init__(self, store: Store, clock: Clock, caller: Caller) -> None:
        self._store = store
        self._clock = clock
        self._caller = caller

    async def read(self, span: Span | str = Span.DAY) -> Overview:
        chosen, now = choice("span", span, Span), self._clock.now()
        start = beginning(now, chosen.width, chosen.parts)
        parts = await self._store.tallies.flow(self._caller.org, start, chosen.width)
        replays = ReplayRecord(*(_sum(parts, each) for each in ("replayed", "replay_failed")))
        return Overview(
            chosen,
            now,
            float(start),
            float(chosen.width),
            await self.standing(),
            await self._oldest(now),
            _over_time(parts, chosen, "came"),
            _over_time(parts, chosen, "left"),
            replays,
            {state: _over_time(parts, chosen, "ended", state) for state in ENDED_RUNS},
        )

    async def standing(self) -> Standing:
        """How things are now."""
        live = await self._store.tallies.live(self._caller.org)
        heals = HealsItself(await self._held(), await self._retrying(), live.replaying, live.scheduled)
        return Standing(NeedsYou(live.open, live.exhausted), heals)

    async def needs_you(self) -> NeedsYou:
        """Of it, what every page tells."""
        live = await self._store.tallies.live(self._caller.org)
        return NeedsYou(live.open, live.exhausted)

    async def _held(self) -> Count:
        """What a limit holds is not broken."""
        held = await self._store.run_lists.held(self._caller.org)
        broken = (number for holder, number in held.numbers.items() if holder.startswith(HELD_BY_BREAKER))
        return Count(min(sum(broken), MAX_COUNTED), held.capped)

    async def _retrying(self) -> Count:
        return await self._store.run_lists.count(BETWEEN_ATTEMPTS, self._caller.org)

    async def _oldest(self, now: float) -> OldestLetter | None:
        page = await self._store.dead_letters.page(_NEEDS_YOU, self._caller.org, 1, order=Order.OLDEST)
        for line in page.lines:
            return OldestLetter(line.id, line.title, line.created_at, max(0.0, now - line.created_at))
        return None


def _over_time(parts: Iterable[Part], span: Span, figure: str, subject: str = "") -> tuple[int, ...]:
    numbers = [0] * span.parts
    for each in parts:
        if (each.figure, each.subject) == (figure, subject):
            numbers[placed(each.place, span.parts)] += each.number
    return tuple(numbers)


def _sum(parts: Iterable[Part], figure: str) -> int:
    return sum(each.number for each in parts if each.figure == figure)
