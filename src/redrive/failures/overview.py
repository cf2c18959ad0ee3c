"""The overview of an organization: what needs you, what heals itself, and new and closed dead letters.

No query here gets slower as more work is stored. The database maintains the counts of dead letters with each
change. Only the letters that wait for a stuck one are counted anew, through the dependencies that callers
named. Waiting and held runs are counted up to 10,000. Workers report finished runs with a delay of some
seconds (engine.event_reporter).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.shared_breakers import HELD_BY_BREAKER
from redrive.model.caller import Caller
from redrive.model.dead_letter import NEEDS_YOU
from redrive.model.field import Instant
from redrive.model.query import MAX_COUNTED, Count, Order, Query, Term
from redrive.model.run import ENDED_RUNS, RunState, is_unknown
from redrive.model.run import RunPosition as RunStanding
from redrive.model.statistics import Span, first_part, part_number
from redrive.policy.bounds import choice
from redrive.store.run_listing import Held
from redrive.store.store import Store
from redrive.store.tallies import TallyPart

_NEEDS_YOU = Query((Term("is", NEEDS_YOU),))
BETWEEN_ATTEMPTS = Query((Term("is", (RunStanding.WAITING,)), Term("is", (RunState.RUNNING,))))


class NeedsYou(NamedTuple):
    """The numbers of dead letters that wait for a person."""

    open: int
    exhausted: int

    @property
    def total(self) -> int:
        return self.open + self.exhausted


class HealsItself(NamedTuple):
    """The numbers of runs and letters that continue without a person. A waiting replay counts twice.

    held       runs that wait for breakers
    retrying   runs that wait for their next attempt
    replaying  dead letters whose replay is in progress
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


class UnknownWork(NamedTuple):
    """Runs that no worker knows, by the task or the workflow that holds them: "task:ship"."""

    held_by: str
    runs: Count


class OverviewTotals(NamedTuple):
    """`unknown_work` needs you, too: a worker must get the task, or the runs must be cancelled."""

    needs_you: NeedsYou
    heals_itself: HealsItself
    unknown_work: tuple[UnknownWork, ...] = ()


class OldestLetter(NamedTuple):
    """The oldest dead letter that needs you; `seconds` is its age."""

    id: str
    title: str
    created_at: Instant
    seconds: float


class ReplayTotals(NamedTuple):
    """Finished replays. `rate` is the share that succeeded; None without any."""

    succeeded: int
    failed: int

    @property
    def rate(self) -> float | None:
        ended = self.succeeded + self.failed
        return self.succeeded / ended if ended else None


class Overview(NamedTuple):
    """The overview at `now`. Series have one value per `width` seconds since `start`; the last is incomplete.

    new     dead letters that were written or reopened
    closed  dead letters that were closed or removed
    runs    finished runs by state, with every final state as a key
    """

    span: Span
    now: Instant
    start: Instant
    width: float
    totals: OverviewTotals
    oldest: OldestLetter | None
    new: tuple[int, ...]
    closed: tuple[int, ...]
    replays: ReplayTotals
    runs: Mapping[RunState, tuple[int, ...]]

    @property
    def moments(self) -> tuple[float, ...]:
        """The start of each part of the series."""
        return tuple(self.start + number * self.width for number in range(len(self.new)))


class OverviewQueries:
    """Reads the overview of the caller's organization; `store` must be the store of that organization."""

    def __init__(self, store: Store, clock: Clock, caller: Caller) -> None:
        self._store = store
        self._clock = clock
        self._caller = caller

    async def read(self, span: Span | str = Span.DAY) -> Overview:
        chosen, now = choice("span", span, Span), self._clock.now()
        start = first_part(now, chosen.width, chosen.parts)
        parts = await self._store.tallies.flow(self._caller.org, start, chosen.width)
        replays = ReplayTotals(_sum(parts, "replayed"), _sum(parts, "replay_failed"))
        return Overview(
            chosen,
            now,
            float(start),
            float(chosen.width),
            await self.totals(),
            await self._oldest(now),
            _over_time(parts, chosen, "came"),
            _over_time(parts, chosen, "left"),
            replays,
            {state: _over_time(parts, chosen, "ended", state) for state in ENDED_RUNS},
        )

    async def totals(self) -> OverviewTotals:
        live = await self._store.tallies.live(self._caller.org)
        retrying = await self._store.run_lists.count(BETWEEN_ATTEMPTS, self._caller.org)
        held = await self._store.run_lists.held(self._caller.org)
        heals = HealsItself(_held_by_breakers(held), retrying, live.replaying, live.scheduled)
        unknown = tuple(
            UnknownWork(holder, held.by(holder)) for holder in sorted(held.numbers) if is_unknown(holder)
        )
        return OverviewTotals(NeedsYou(live.open, live.exhausted), heals, unknown)

    async def needs_you(self) -> NeedsYou:
        """The numbers that every page shows."""
        live = await self._store.tallies.live(self._caller.org)
        return NeedsYou(live.open, live.exhausted)

    async def _oldest(self, now: float) -> OldestLetter | None:
        page = await self._store.dead_letters.page(_NEEDS_YOU, self._caller.org, 1, order=Order.OLDEST)
        for line in page.lines:
            return OldestLetter(line.id, line.title, line.created_at, max(0.0, now - line.created_at))
        return None


def _held_by_breakers(held: Held) -> Count:
    """Count runs held by breakers, but not runs held by limits."""
    broken = (number for holder, number in held.numbers.items() if holder.startswith(HELD_BY_BREAKER))
    return Count(min(sum(broken), MAX_COUNTED), held.capped)


def _over_time(parts: Iterable[TallyPart], span: Span, figure: str, subject: str = "") -> tuple[int, ...]:
    numbers = [0] * span.parts
    for part in parts:
        if (part.figure, part.subject) == (figure, subject):
            numbers[part_number(part.place, span.parts)] += part.number
    return tuple(numbers)


def _sum(parts: Iterable[TallyPart], figure: str) -> int:
    return sum(part.number for part in parts if part.figure == figure)
