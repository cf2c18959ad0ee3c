"""The worker: runs the loops of its parts side by side until it is told to stop, then drains.

The claimer claims while there is room. Maintenance makes due runs ready and releases held ones, takes over
expired leases and passes on cancellations. The recorder and the breakers write what they have gathered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

from redrive.engine.claimer import Claimer
from redrive.engine.maintenance import Maintenance
from redrive.engine.signals import on_stop_signal, wait_for
from redrive.engine.work import Interruption, Work
from redrive.engine.worker_parts import WorkerParts
from redrive.errors import StoreError, StoreUnavailableError
from redrive.model.event import WorkerStarted, WorkerStopped, WorkerStopping

UNHEALTHY_AFTER = 30.0
MIN_DRIVE_SECONDS = 0.02
"""A bulk replay whose items end all the time is not looked at more often than this."""
LOOPS_GRACE, STOP_GRACE = 2.0, 0.5
"""Seconds for the loops to end and the last records to be written, and for tasks to stop when told to."""


class Health(NamedTuple):
    """`seconds_since_poll` is the age of the last successful poll of its slowest loop."""

    healthy: bool
    seconds_since_poll: float
    in_flight: int


class Worker:
    def __init__(self, parts: WorkerParts) -> None:
        self.id = parts.id
        self.options = parts.options
        self.parts = parts
        self.in_flight = parts.in_flight
        self.driver = parts.driver
        self.processor = parts.processor
        self.claimer = Claimer(parts)
        self.maintenance = Maintenance(parts, self.claimer)
        self._clock = parts.clock
        self._database = parts.database
        self._event_bus = parts.event_bus
        self._retrier = parts.retrier
        self._signals = parts.signals
        self._stopping = parts.signals.stopping
        self._executor = parts.executor
        self._recorder = parts.recorder
        self._breakers = parts.breakers
        self._hurry = asyncio.Event()
        self._background: asyncio.Task[None] | None = None
        self._requeued = 0

    async def run(self, *, signals: bool = False) -> None:
        """Work until `stop` is called; with `signals`, SIGTERM and SIGINT call it. A second one hurries."""
        async with AsyncExitStack() as stack:
            stack.callback(lambda: self._event_bus.emit(WorkerStopped(self.id, self._requeued)))
            stack.callback(self.parts.invoker.close)
            if signals:
                stack.enter_context(on_stop_signal(self.stop))
            # Not before signals are handled: a listener may send one.
            self._event_bus.emit(WorkerStarted(self.id, self.options.queues, self.options.concurrency))
            if not await self._opened():
                return
            await stack.enter_async_context(self._database.listen(self._heard))
            renewal = self._renew_by(stack)
            work = [
                self.claimer.run,
                self.maintenance.run_promotion,
                self.maintenance.run,
                self._drive_loop,
            ]
            if self.options.redrive:
                self.processor.start()
                stack.push_async_callback(self.processor.stop)
            records = [self._recorder.run, self._breakers.run, *renewal]
            stack.push_async_callback(self._executor.abandon)
            async with _running(records) as recording, _running(work) as working:
                await self._until_stopped([*working, *recording])
                await self._drain(working)

    async def __aenter__(self) -> Self:
        """`async with app.worker():` works in the background for the time of the block."""
        self._background = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._background is not None:
            await self._background

    def stop(self) -> None:
        """Claim nothing more and finish what is in flight; called again: give it back at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        for event in (
            self._signals.ready,
            self._signals.due,
            self._signals.replay_ended,
            self.in_flight.room_made,
            self.in_flight.removed,
        ):
            event.set()

    def health(self) -> Health:
        polled_at = min(self.maintenance.promoted_at, self.maintenance.maintained_at)
        if self.claimer.free() > 0:
            polled_at = min(polled_at, self.claimer.polled_at)
        since = max(0.0, self._clock.monotonic() - polled_at)
        return Health(since < UNHEALTHY_AFTER, since, len(self.in_flight))

    async def work_off(self) -> int:
        """Execute ready runs, and those that become ready by it; the number of attempts. For tests."""
        before = self._executor.attempts
        async with _running([self._recorder.run]):
            while True:
                await self.maintenance.maintain()
                await self._written()
                await self.maintenance.promote()
                await self._tend()
                others = set(self._executor.tasks)
                claimed = await self.claimer.claim(self.options.concurrency, abstain=False)
                await asyncio.gather(*(self._executor.tasks - others), return_exceptions=True)
                await self._written()
                await self._breakers.settle()
                if not claimed:
                    await self.maintenance.write_ended_runs()
                    return self._executor.attempts - before

    async def _tend(self) -> None:
        """Redrive what is due, and drive bulk replays as far as they can go now."""
        if self.options.redrive:
            await self.processor.run_once()
        while await self.driver.tick() == 0.0:
            pass

    async def _written(self) -> None:
        while self._recorder.pending:
            await self.in_flight.removed.wait()
            self.in_flight.removed.clear()

    async def _opened(self) -> bool:
        """Wait for the database; False when the worker is told to stop before it is there."""
        action = self._retrier.run("open", self.parts.open, errors=StoreUnavailableError)
        opening, stopping = asyncio.create_task(action), asyncio.create_task(self._stopping.wait())
        await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not opening.done():
            await _cancel([opening])
            return False
        await opening
        return True

    # Loops of its own

    async def _drive_loop(self) -> None:
        """Bring bulk replays forward."""
        while not self._stopping.is_set():
            self._signals.replay_ended.clear()
            wait = await self._retrier.run("replay", self.driver.tick)
            if await wait_for(self._signals.replay_ended, wait, self._clock):
                await wait_for(self._stopping, MIN_DRIVE_SECONDS, self._clock)

    async def _renew_loop(self) -> None:
        while True:
            await self._clock.sleep(self.options.lease_seconds / 3.0)
            await self.in_flight.lease_renewer.renew(self._database)

    def _renew_by(self, stack: AsyncExitStack) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Renew leases on a thread; in a loop where the database is in memory, out of reach of a thread."""
        if self._database.in_memory:
            return [self._renew_loop]
        self.in_flight.lease_renewer.start()
        stack.callback(self.in_flight.lease_renewer.stop)
        return []

    # Stopping

    async def _until_stopped(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Wait for `stop`. A loop that fails ends the worker, which would look alive otherwise."""
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({stopping, *loops}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for loop in loops:
            if loop.done() and not self._stopping.is_set():
                loop.result()

    async def _drain(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Finish what is in flight, give back what cannot be finished in time."""
        grace = self.options.grace_seconds
        end = self._clock.monotonic() + grace
        self._event_bus.emit(WorkerStopping(self.id, len(self.in_flight), grace))
        await asyncio.wait(loops, timeout=min(LOOPS_GRACE, grace))
        await _cancel(loops)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LOOPS_GRACE):
                await self.claimer.adopt()
        await self._wait_until_idle(end, hurry=True)
        left = self.in_flight.works
        self._requeued = len(left)
        await self._give_back(left)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LOOPS_GRACE):
                await self._breakers.flush()
                await self.maintenance.heartbeat("stopped")

    async def _give_back(self, works: Sequence[Work]) -> None:
        """Interrupt the works; give back those that do not stop, or never started."""
        for work in works:
            work.interrupt(Interruption.DRAINED)
        await self._wait_until_idle(self._clock.monotonic() + STOP_GRACE, hurry=False)
        for work in self.in_flight.works:
            self._executor.give_back(work)
        await self._wait_until_idle(self._clock.monotonic() + LOOPS_GRACE, hurry=False)

    async def _wait_until_idle(self, end: float, *, hurry: bool) -> None:
        """Wait until nothing is in flight and everything is written, or the time is over."""
        while len(self.in_flight) or self._recorder.pending:
            if self._clock.monotonic() >= end or (hurry and self._hurry.is_set()):
                return
            await self.in_flight.wait_for_one(0.05)

    # Hints

    def _heard(self, queue: str) -> None:
        if not queue or queue in self.options.queues:
            self._signals.ready.set()


@asynccontextmanager
async def _running(
    loops: Sequence[Callable[[], Coroutine[Any, Any, None]]],
) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(loop()) for loop in loops]
    try:
        yield tasks
    finally:
        await _cancel(tasks)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
