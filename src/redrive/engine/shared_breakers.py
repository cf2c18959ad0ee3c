"""Breakers that all workers share through the database.

`policy.breaker` implements the state machine; a row in the database stores its state. To report an outcome, a
worker locks the row, restores the breaker, reports to it and saves it. The database's clock gives the time.
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
from redrive.model.fact import fact
from redrive.model.run import new_event
from redrive.policy.breaker import Breaker
from redrive.policy.breaker_policy import BreakerPolicy, Ramp
from redrive.policy.codec import decode, encode
from redrive.store.limits import BreakerRow
from redrive.store.store import Store

HELD_BY_BREAKER = "breaker:"
MAX_RELEASE_BATCH = 1_000
PROBE_SECONDS = 10.0
MAX_PROBES = 8
MAX_PROBE_CANDIDATES = 100

Probe = Callable[[], Awaitable[object] | object]


class BreakerSettings(NamedTuple):
    policy: BreakerPolicy
    probe: Probe | None
    ramp: Ramp


class Report(NamedTuple):
    """The outcome of an admitted call."""

    permit: Permit
    outcome: CallOutcome
    seconds: float = 0.0
    retry_after: float | None = None


class SharedBreaker(NamedTuple):
    """A stored breaker, at the time `row.now`."""

    row: BreakerRow
    breaker: Breaker

    @property
    def snapshot(self) -> BreakerSnapshot:
        return self.breaker.snapshot(self.row.now)

    @property
    def state(self) -> BreakerState:
        return self.snapshot.state


class SharedBreakers:
    """`settings` holds the breakers configured by the application; all other breakers use `policy`."""

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
        """Read a breaker; None if nothing was ever reported to it."""
        row = await self._store.limits.breaker(name)
        return None if row is None else self._restore(row)

    async def all(self) -> list[SharedBreaker]:
        return [self._restore(row) for row in await self._store.limits.breakers()]

    def unused(self, name: str, now: float) -> SharedBreaker:
        """Return a breaker to which nothing was ever reported."""
        return self._restore(
            BreakerRow(name=name, body="{}", closed_at=None, released=0, updated_at=now, now=now)
        )

    def policy(self, name: str) -> BreakerPolicy:
        return self._of(name).policy

    async def opened(self) -> set[str]:
        """The names of the breakers that are open now. Must not be called in a transaction."""
        return {breaker.row.name for breaker in await self.all() if breaker.state is BreakerState.OPEN}

    async def admit(self, name: str, calls: int) -> list[Permit | Refusal]:
        """Return a permit or refusal for each call. A closed breaker admits all calls without a lock."""
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
        """Force the breaker open or closed, for a time on the database's clock or until it is released."""

        def change(breaker: Breaker, now: float) -> None:
            breaker.force(
                Force(state=state, reason=reason, by=by, until=None if seconds is None else now + seconds),
                now,
            )

        await self._change(name, change, f"forced by {by}: {reason}", entry)

    async def release(self, name: str, entry: NewEntry | None = None) -> None:
        """Remove a manual override."""
        await self._change(name, lambda breaker, now: breaker.force(None, now), "released", entry)

    def report(self, name: str, report: Report) -> None:
        self._reports.setdefault(name, []).append(report)
        self._filled.set()

    async def run(self) -> None:
        """Write reports until cancelled. Reports that cannot be written are dropped."""
        while True:
            await self._filled.wait()
            await self.flush()

    async def settle(self) -> None:
        """Wait for probes in progress, then write all reports. For tests."""
        await asyncio.gather(*self._probes.values())
        await self.flush()

    async def flush(self) -> None:
        self._filled.clear()
        reports, self._reports = self._reports, {}
        for name, outcomes in sorted(reports.items()):
            try:
                await self._change(name, partial(_report, outcomes))
            except StoreError:
                continue

    async def tend(self, name: str) -> tuple[list[str], bool]:
        """Release held work or start a probe, depending on the breaker's state.

        Returns the queues of the released runs, and whether there may be more to release.
        """
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
        free = self._of(name).policy.probe_slots - known.snapshot.probes_in_progress
        return await self._release(name, free, await self._skip(name)), False

    async def _skip(self, name: str) -> int:
        """Choose a random held run as the probe, so that it is not always the oldest run."""
        held = await self._store.limits.count_held(HELD_BY_BREAKER + name, MAX_PROBE_CANDIDATES)
        return self._random.randrange(held) if held > 1 else 0

    async def _release(self, name: str, limit: int, skip: int = 0) -> list[str]:
        if limit <= 0:
            return []
        released = await self._store.limits.release(HELD_BY_BREAKER + name, limit, skip)
        detail = fact("released", holder=HELD_BY_BREAKER + name)
        await self._store.records.note_events(
            [new_event(self._ids.new(), run.id, detail.code, run.step_index, detail) for run in released]
        )
        return [run.queue for run in released]

    async def _release_by_ramp(self, name: str) -> tuple[list[str], bool]:
        ramp = self._of(name).ramp
        async with self._store.database.transaction() as session:
            row = await self._store.limits.lock_breaker(session, name)
            since = row.now - 3600.0 if row.closed_at is None else row.closed_at
            limit = min(ramp.allowance(since, row.now, row.released), MAX_RELEASE_BATCH)
            await self._store.limits.save_breaker(session, row._replace(released=row.released + limit))
        released = await self._release(name, limit)
        return released, len(released) == limit

    def _start_probe(self, name: str) -> None:
        """Start a probe in the background: it is user code and may be slow."""
        if name not in self._probes or self._probes[name].done():
            self._probes[name] = asyncio.create_task(self._probe(name))

    async def _probe(self, name: str) -> None:
        """Call the probe function to check whether the dependency works again, and report the outcome."""
        with suppress(StoreError):
            [answer] = await self.admit(name, 1)
            if isinstance(answer, Permit):
                healthy = await self._healthy(self._of(name).probe)
                self.report(name, Report(answer, CallOutcome.SUCCEEDED if healthy else CallOutcome.FAILED))

    async def _healthy(self, probe: Probe | None) -> bool:
        """Call a probe. False, an exception or a timeout mean unhealthy; anything else means healthy."""
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
        """Change a breaker under its lock. `entry` is the audit entry if a person makes the change."""
        async with self._store.database.transaction() as session:
            row = await self._store.limits.lock_breaker(session, name)
            breaker = self._restore(row).breaker
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

    def _restore(self, row: BreakerRow) -> SharedBreaker:
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
    """Return the stored state. If it cannot be read, the breaker starts from scratch."""
    try:
        body = decode(row.body)
    except NotStorableError:
        return {}
    return body if isinstance(body, dict) else {}


def _stored_state(row: BreakerRow) -> BreakerState:
    """Return the state as last written; it may have changed since just by the passing of time."""
    state = _body(row).get("state", BreakerState.CLOSED)
    return BreakerState(state) if state in list(BreakerState) else BreakerState.CLOSED


def _report(reports: Iterable[Report], breaker: Breaker, now: float) -> None:
    for report in reports:
        breaker.report(report.permit, report.outcome, now, report.seconds, report.retry_after)
