"""Breakers that all workers share through the store.

The state machine is that of `policy.breaker`; the row of the store is its memory. Whoever has something to
report locks the row, restores the breaker, reports, and saves it. Time is the database's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, NamedTuple

from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.engine.invoker import Threads
from redrive.errors import NotStorableError, StoreError
from redrive.model.audit import NewEntry
from redrive.model.breaker import BreakerSnapshot, BreakerState, CallOutcome, Force, Permit, Refusal
from redrive.model.event import BreakerChanged
from redrive.model.run import RunEvent
from redrive.policy.breaker import Breaker
from redrive.policy.breaker_policy import BreakerPolicy, Ramp
from redrive.policy.codec import decode, encode
from redrive.store.limits import BreakerRow
from redrive.store.store import Store

HELD_BY_BREAKER = "breaker:"
MAX_RELEASE_BATCH = 1_000
PROBE_SECONDS = 10.0
MAX_PROBES = 8
MAX_TURNS = 100

Probe = Callable[[], Awaitable[object] | object]


class BreakerSettings(NamedTuple):
    policy: BreakerPolicy
    probe: Probe | None
    ramp: Ramp


class Report(NamedTuple):
    """What came of a call that was let through."""

    permit: Permit
    outcome: CallOutcome
    seconds: float = 0.0
    retry_after: float | None = None


class SharedBreaker(NamedTuple):
    """A breaker as it stands in the store at `now`."""

    row: BreakerRow
    breaker: Breaker

    @property
    def snapshot(self) -> BreakerSnapshot:
        return self.breaker.snapshot(self.row.now)

    @property
    def state(self) -> BreakerState:
        return self.snapshot.state


class SharedBreakers:
    """`settings` are those of breakers that the application has named; the others follow `policy`."""

    def __init__(
        self,
        store: Store,
        event_bus: EventBus,
        ids: Ids,
        random: Random,
        policy: BreakerPolicy,
        settings: dict[str, BreakerSettings],
    ) -> None:
        self._random = random
        self._default = BreakerSettings(policy, None, Ramp())
        self._store = store
        self._ids = ids
        self._event_bus = event_bus
        self.settings = settings
        self._reports: dict[str, list[Report]] = {}
        self._filled = asyncio.Event()
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._threads = Threads(MAX_PROBES)

    async def look(self, name: str) -> SharedBreaker | None:
        """As it stands now; None while nothing was ever reported to it."""
        row = await self._store.limits.breaker(name)
        return None if row is None else self._restored(row)

    async def all(self) -> list[SharedBreaker]:
        return [self._restored(row) for row in await self._store.limits.breakers()]

    def unused(self, name: str, now: float) -> SharedBreaker:
        """One to which nothing was ever reported."""
        return self._restored(
            BreakerRow(name=name, body="{}", closed_at=None, released=0, updated_at=now, now=now)
        )

    def policy(self, name: str) -> BreakerPolicy:
        return self._of(name).policy

    async def opened(self) -> set[str]:
        """The names of those that are open now. Not to be asked within a transaction."""
        return {each.row.name for each in await self.all() if each.state is BreakerState.OPEN}

    async def admit(self, name: str, calls: int) -> list[Permit | Refusal]:
        """An answer for each of so many calls. A closed breaker lets all through and is not locked for it."""
        known = await self.look(name)
        if known is None or known.breaker.closed_permit is not None:
            permit = Permit(1) if known is None else known.breaker.closed_permit or Permit(1)
            return [permit] * calls
        answers: list[Permit | Refusal] = await self._change(
            name, lambda breaker, now: [breaker.admit(now) for _ in range(calls)]
        )
        return answers

    async def force(
        self,
        name: str,
        state: BreakerState,
        reason: str,
        by: str,
        seconds: float | None,
        entry: NewEntry | None = None,
    ) -> None:
        """Open or close it by hand, for so many seconds of the database's clock, or until further notice."""

        def change(breaker: Breaker, now: float) -> None:
            breaker.force(
                Force(state=state, reason=reason, by=by, until=None if seconds is None else now + seconds),
                now,
            )

        await self._change(name, change, f"forced by {by}: {reason}", entry)

    async def leave_alone(self, name: str, entry: NewEntry | None = None) -> None:
        await self._change(name, lambda breaker, now: breaker.force(None, now), "left to itself", entry)

    def report(self, name: str, report: Report) -> None:
        self._reports.setdefault(name, []).append(report)
        self._filled.set()

    async def run(self) -> None:
        """Write reports until cancelled. Those of a moment in which the database is away are dropped."""
        while True:
            await self._filled.wait()
            await self.flush()

    async def settle(self) -> None:
        """Wait for the probes that are under way, then write all reports. For tests."""
        await asyncio.gather(*self._probes.values())
        await self.flush()

    async def flush(self) -> None:
        self._filled.clear()
        reports, self._reports = self._reports, {}
        for name, several in sorted(reports.items()):
            try:
                await self._change(name, partial(_report, several))
            except StoreError:
                continue

    async def tend(self, name: str) -> tuple[list[str], bool]:
        """Bring a breaker that holds work forward: the queues of what was released, and is there more?"""
        known = await self.look(name)
        if known is None:
            return await self._release(name, MAX_RELEASE_BATCH), False
        if known.state is BreakerState.CLOSED:
            return await self._release_by_ramp(name)
        if known.state is BreakerState.OPEN:
            return [], False
        if self._of(name).probe is not None:
            self._start_probe(name)
            return [], False
        free = self._of(name).policy.probe_slots - known.snapshot.probes_under_way
        return await self._release(name, free, await self._skip(name)), False

    async def _skip(self, name: str) -> int:
        """Not always the oldest: many runs take turns in finding out whether the dependency is back."""
        held = await self._store.limits.count_held(HELD_BY_BREAKER + name, MAX_TURNS)
        return self._random.randrange(held) if held > 1 else 0

    async def _release(self, name: str, most: int, skip: int = 0) -> list[str]:
        if most <= 0:
            return []
        released = await self._store.limits.release(HELD_BY_BREAKER + name, most, skip)
        await self._store.records.note_events(
            [
                RunEvent(
                    id=self._ids.new(),
                    run_id=each.id,
                    kind="released",
                    step_index=each.step_index,
                    detail=f"by breaker:{name}",
                )
                for each in released
            ]
        )
        return [each.queue for each in released]

    async def _release_by_ramp(self, name: str) -> tuple[list[str], bool]:
        ramp = self._of(name).ramp
        async with self._store.database.transaction() as session:
            row = await self._store.limits.lock_breaker(session, name)
            since = row.now - 3600.0 if row.closed_at is None else row.closed_at
            most = min(ramp.allowance(since, row.now, row.released), MAX_RELEASE_BATCH)
            await self._store.limits.save_breaker(session, row._replace(released=row.released + most))
        released = await self._release(name, most)
        return released, len(released) == most

    def _start_probe(self, name: str) -> None:
        """Beside everything else: a probe is anybody's code, and may take its time."""
        if name not in self._probes or self._probes[name].done():
            self._probes[name] = asyncio.create_task(self._probe(name))

    async def _probe(self, name: str) -> None:
        """Ask the dependency itself whether it is back."""
        with suppress(StoreError):
            [answer] = await self.admit(name, 1)
            if isinstance(answer, Permit):
                healthy = await self._healthy(self._of(name).probe)
                self.report(name, Report(answer, CallOutcome.SUCCEEDED if healthy else CallOutcome.FAILED))

    async def _healthy(self, probe: Probe | None) -> bool:
        """What a probe says: False, an exception, or no answer in time mean no, everything else yes."""
        if probe is None:
            return False
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                answer = await self._threads.run(probe, lambda: PROBE_SECONDS)
                if isinstance(answer, Awaitable):
                    answer = await answer
        except Exception:  # noqa: BLE001
            return False
        return answer is not False

    async def _change(
        self,
        name: str,
        change: Callable[[Breaker, float], Any],
        why: str = "",
        entry: NewEntry | None = None,
    ) -> Any:
        """`entry` is for the audit, when a person does it."""
        async with self._store.database.transaction() as session:
            row = await self._store.limits.lock_breaker(session, name)
            breaker = self._restored(row).breaker
            before = _stored_state(row)
            answer = change(breaker, row.now)
            after = breaker.snapshot(row.now).state
            changed = row._replace(body=encode(breaker.dump()))
            if after is BreakerState.CLOSED and before is not after:
                changed = changed._replace(closed_at=row.now, released=0)
            await self._store.limits.save_breaker(session, changed)
            if entry is not None:
                await self._store.audit.append(session, [entry])
        if before is not after or why:
            self._event_bus.emit(
                BreakerChanged(
                    breaker=name, before=str(before), after=str(after), reason=why or _reason(before, after)
                )
            )
        return answer

    def _of(self, name: str) -> BreakerSettings:
        return self.settings.get(name, self._default)

    def _restored(self, row: BreakerRow) -> SharedBreaker:
        return SharedBreaker(row, Breaker.restored(self._of(row.name).policy, _body(row)))


def _reason(before: BreakerState, after: BreakerState) -> str:
    if before is BreakerState.HALF_OPEN and after is BreakerState.OPEN:
        return "a probe failed or never reported"
    return _REASONS[after]


_REASONS = {
    BreakerState.OPEN: "too many calls failed or were slow",
    BreakerState.HALF_OPEN: "the cool-down is over",
    BreakerState.CLOSED: "the dependency works again",
}


def _body(row: BreakerRow) -> dict[str, Any]:
    """What cannot be read is as if it were not there: the breaker starts anew."""
    try:
        body = decode(row.body)
    except NotStorableError:
        return {}
    return body if isinstance(body, dict) else {}


def _stored_state(row: BreakerRow) -> BreakerState:
    """As it was last written; time alone may have changed it since."""
    state = _body(row).get("state", BreakerState.CLOSED)
    return BreakerState(state) if state in list(BreakerState) else BreakerState.CLOSED


def _report(reports: Iterable[Report], breaker: Breaker, now: float) -> None:
    for each in reports:
        breaker.report(each.permit, each.outcome, now, each.seconds, each.retry_after)
