"""The worker: runs the loops of its parts concurrently until it is stopped, then drains.

The claimer claims runs while there are free slots. Maintenance makes due runs ready, releases held ones,
takes over expired leases and passes on cancellations. The recorder and the breakers write collected data.
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
from redrive.engine.stop_watchdog import StopWatchdog, end_process
from redrive.engine.work import Interruption, Work
from redrive.engine.worker_parts import WorkerParts
from redrive.errors import StoreError, StoreUnavailableError
from redrive.model.event import WorkerStarted, WorkerStopped, WorkerStopping
from redrive.words.number import plural

UNHEALTHY_SECONDS = 30.0
MIN_DRIVE_SECONDS = 0.02
"""The minimum time between two checks of a bulk replay whose items finish continuously."""
LOOPS_GRACE_SECONDS, STOP_GRACE_SECONDS = 2.0, 1.5
"""How long the loops may take to stop and write the last records, and interrupted tasks to finish."""


class Health(NamedTuple):
    """`seconds_since_poll` is the time since the last successful poll of the worker's slowest loop."""

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
        self._stop_cause = "stop"

    async def run(self, *, signals: bool = False) -> None:
        """Work until `stop` is called.

        With `signals`, the process belongs to the worker: SIGTERM and SIGINT call `stop`, and the process
        ends even if a function does not stop.
        """
        async with AsyncExitStack() as stack:
            stack.callback(lambda: self._event_bus.emit(WorkerStopped(self.id, self._requeued)))
            stack.callback(self.parts.invoker.close)
            if signals:
                loop, grace = asyncio.get_running_loop(), self.options.grace_seconds
                stack.enter_context(on_stop_signal(self.stop))
                stack.enter_context(StopWatchdog(loop, grace, self.in_flight.reason_for_silence))
            # Only after signals are handled: a listener may send one.
            self._event_bus.emit(WorkerStarted(self.id, self.options.queues, self.options.concurrency))
            if not await self._open_database():
                await self._report_stopped()  # the first heartbeat may have been written
                return
            await stack.enter_async_context(self._database.listen(self._on_hint))
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
                stubborn = await self._drain(working)
                if signals and (stubborn or self._executor.stubborn):
                    await self._end_process(stubborn)

    async def __aenter__(self) -> Self:
        """`async with app.worker():` works in the background until the end of the block."""
        self._background = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._background is not None:
            await self._background

    def stop(self, cause: str = "stop") -> None:
        """Claim nothing more and finish work in flight. On a second call, release it immediately.

        The log gets the cause of the first call.
        """
        if self._stopping.is_set():
            self._hurry.set()
        else:
            self._stop_cause = cause
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
        return Health(since < UNHEALTHY_SECONDS, since, len(self.in_flight))

    async def work_off(self) -> int:
        """In tests: execute ready runs and those that become ready as a result. Return the attempts made."""
        before = self._executor.attempts
        async with _running([self._recorder.run]):
            while True:
                await self.maintenance.maintain()
                await self._wait_until_recorded()
                await self.maintenance.promote()
                await self._tend()
                running = set(self._executor.tasks)
                claimed = await self.claimer.claim(self.options.concurrency)
                await self._executor.launched()
                await asyncio.gather(*(set(self._executor.tasks) - running), return_exceptions=True)
                await self._wait_until_recorded()
                await self._breakers.settle()
                if not claimed:
                    await self.maintenance.write_ended_runs()
                    return self._executor.attempts - before

    async def _tend(self) -> None:
        """Redrive due dead letters, and advance bulk replays as far as possible."""
        if self.options.redrive:
            await self.processor.run_once()
        while await self.driver.tick() == 0.0:
            pass

    async def _wait_until_recorded(self) -> None:
        while self._recorder.pending:
            await self.in_flight.removed.wait()
            self.in_flight.removed.clear()

    async def _open_database(self) -> bool:
        """Wait for the database. Return False if the worker is stopped before the database is available."""
        action = self._retrier.run("open", self._introduce, errors=StoreUnavailableError)
        opening, stopping = asyncio.create_task(action), asyncio.create_task(self._stopping.wait())
        await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not opening.done():
            await _cancel([opening])
            return False
        await opening
        return True

    async def _introduce(self) -> None:
        """Open the database, and write the first heartbeat: the first run may block the event loop."""
        await self.parts.open()
        await self.parts.strategies.refresh()
        await self.maintenance.heartbeat("running")

    # Loops

    async def _drive_loop(self) -> None:
        """Advance bulk replays until the worker stops."""
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
        """Renew leases on a thread; in a loop if the database is in memory, which a thread cannot access."""
        if self._database.in_memory:
            return [self._renew_loop]
        self.in_flight.lease_renewer.start()
        stack.callback(self.in_flight.lease_renewer.stop)
        return []

    # Stopping

    async def _until_stopped(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Wait for `stop`. If a loop fails, stop the worker, which would otherwise look alive."""
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({stopping, *loops}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for loop in loops:
            if loop.done() and not self._stopping.is_set():
                loop.result()

    async def _drain(self, loops: Sequence[asyncio.Task[None]]) -> list[Work]:
        """Finish the work in flight, and release work that does not finish within the grace period.

        Return the work whose functions don't stop. It is not released: two workers would execute it at once.
        """
        grace = self.options.grace_seconds
        end = self._clock.monotonic() + grace
        self._event_bus.emit(WorkerStopping(self.id, len(self.in_flight), grace, self._stop_cause))
        await asyncio.wait(loops, timeout=min(LOOPS_GRACE_SECONDS, grace))
        await _cancel(loops)
        await (
            self._database.wait_for_cancelled()
        )  # a cancelled claim must not be committed after the two below
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LOOPS_GRACE_SECONDS):
                await self.claimer.adopt()
                await self.maintenance.finish_reclaim()
        await self._wait_until_idle(end, hurry=True)
        left = self.in_flight.works
        self._requeued = len(left)
        await self._give_back(left)
        await self._report_stopped()
        return await self._executor.unstopped()

    async def _end_process(self, stubborn: Sequence[Work]) -> None:
        """Release the work that doesn't stop, and end the process with it."""
        for work in stubborn:
            work.revoke()
            self._executor.give_back(work)
        await self._wait_until_idle(self._clock.monotonic() + LOOPS_GRACE_SECONDS)
        self._event_bus.emit(WorkerStopped(self.id, self._requeued))
        number = plural(len(stubborn) + len(self._executor.stubborn), "task")
        end_process(0, f"redrive: {number} did not stop within the grace period. The process ends now.")

    async def _report_stopped(self) -> None:
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LOOPS_GRACE_SECONDS):
                await self._breakers.flush()
                await self.maintenance.heartbeat("stopped")

    async def _give_back(self, works: Sequence[Work]) -> None:
        """Interrupt work, and release what never started or has stopped."""
        for work in works:
            work.interrupt(Interruption.DRAINED)
        await self._wait_until_idle(self._clock.monotonic() + STOP_GRACE_SECONDS)
        for work in self.in_flight.works:
            if not work.is_executing:
                self._executor.give_back(work)
        await self._wait_until_idle(self._clock.monotonic() + LOOPS_GRACE_SECONDS, executing=False)

    async def _wait_until_idle(self, end: float, *, hurry: bool = False, executing: bool = True) -> None:
        """Wait until no work is in flight and all records are written, or until `end`.

        hurry      a second call of `stop` ends the wait
        executing  also wait for work whose function is running
        """
        while self._recorder.pending or any(
            executing or not work.is_executing for work in self.in_flight.works
        ):
            if self._clock.monotonic() >= end or (hurry and self._hurry.is_set()):
                return
            await self.in_flight.wait_for_one(0.05)

    # Hints

    def _on_hint(self, queue: str) -> None:
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
