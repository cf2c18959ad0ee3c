"""The watch of the event loop that executes the work, kept by the thread that renews its leases.

A worker whose loop is blocked executes nothing and hears nothing, so its leases must not last forever. A
short block is normal: the thread renews leases until the loop has been silent for longer than a lease. The
leases then expire, other workers take the runs over, and the rules for crashed workers apply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.work import Work
from redrive.model.worker import BlockingStep
from redrive.store.database import Session

MIN_PATIENCE_SECONDS = 10.0
"""A loop may be silent for this long even if a lease is shorter."""
REPORT_AFTER_SECONDS = 5.0
"""A loop that is silent for this long is reported in the database, with the step that blocks it."""
REPORT_INTERVAL_SECONDS = 5.0
MAX_STEP_SECONDS = 6.0
"""The longest time between two checks that counts as silence: the process was frozen for the rest of it."""


class Silence(NamedTuple):
    """The loop has not answered for that many seconds; `step` blocks it, if a step does."""

    seconds: float
    step: BlockingStep | None


WriteSilence = Callable[[Session, Silence], Awaitable[None]]


class LoopWatch:
    """Checks whether the loop answers. The thread that renews leases calls all methods but `attach`."""

    def __init__(
        self,
        clock: Clock,
        lease_seconds: float,
        executed_by: Callable[[object], Work | None],
        write: WriteSilence,
    ) -> None:
        self._clock = clock
        self._patience = max(lease_seconds, MIN_PATIENCE_SECONDS)
        self._executed_by = executed_by
        self._write = write
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_asked = False
        self._silent = 0.0
        self._checked_at = clock.monotonic()
        self._reported_at = 0.0
        self._refused_at: float | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def vouches(self) -> bool:
        """Ask the loop again if it has answered. Return False if it has been silent for too long."""
        now = self._clock.monotonic()
        elapsed, self._checked_at = now - self._checked_at, now
        if self._loop is None:
            return True
        if self._is_asked:
            self._silent += min(elapsed, MAX_STEP_SECONDS)
        else:
            self._silent, self._is_asked = 0.0, True
            with suppress(RuntimeError):  # the loop is closed: its work has ended
                self._loop.call_soon_threadsafe(self._answer)
        if self._silent < self._patience:
            return True
        self._refused_at = now
        return False

    @property
    def awaits_answer(self) -> bool:
        """Whether the loop had not answered when it was last to be asked again."""
        return self._is_asked and self._silent > 0.0

    def has_refused_since(self, moment: float) -> bool:
        """Whether leases were not renewed, after this moment of the monotonic clock, for a blocked loop."""
        return self._refused_at is not None and self._refused_at >= moment

    def silence(self) -> Silence | None:
        """Return for how long the loop has been silent, and the step that it executes; None if it answers."""
        loop = self._loop
        if loop is None or not self._is_asked or self._silent < REPORT_AFTER_SECONDS:
            return None
        work = self._executed_by(asyncio.current_task(loop))
        if work is None:
            return Silence(self._silent, None)
        claim, step = work.claim, work.step
        return Silence(
            self._silent,
            BlockingStep(claim.id, claim.org, claim.workflow, step.name, step.task, claim.attempt),
        )

    async def report(self, session: Session) -> None:
        """Store that the loop is silent, instead of the heartbeat that the loop does not write."""
        now, silence = self._clock.monotonic(), self.silence()
        if silence is not None and now - self._reported_at >= REPORT_INTERVAL_SECONDS:
            self._reported_at = now
            async with asyncio.timeout(REPORT_INTERVAL_SECONDS):
                await self._write(session, silence)

    def _answer(self) -> None:
        self._is_asked = False
