"""Testing tools for programs that use Redrive: a virtual clock, which advances only when something waits.

with virtual_time() as clock:                     for guarded calls
    charge()                                      # retries without sleeping
assert clock.waits == [0.2, 0.4]

async with in_memory(app) as test:                for an application
    run = await app.start(checkout, order)
    await test.drain()                            # execute all ready steps
    await test.advance(60)                        # advance a minute; execute the steps that become due
    assert await run.result() == ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from redrive.clock import SYSTEM_CLOCK
from redrive.duration import Seconds, to_seconds
from redrive.errors import InvalidValueError
from redrive.parts import parts_of, rewire

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.engine.definition import Definition
    from redrive.engine.encryption import Encryption
    from redrive.engine.shared_breakers import SharedBreaker
    from redrive.engine.task import AnyTask
    from redrive.engine.worker import Worker
    from redrive.model.run import Run

EPOCH = 1_700_000_000.0
"""Where a virtual clock starts, in seconds since 1970."""

MAX_WAIT_SECONDS = 366 * 86_400.0


class VirtualClock:
    """A clock that advances only when code waits or a test calls `advance`.

    time       seconds passed so far
    waits      all waits so far, in seconds
    overshoot  seconds that every wait takes longer than requested, as on a busy machine
    """

    def __init__(self, overshoot: Seconds = 0.0) -> None:
        self.time = 0.0
        self.waits: list[float] = []
        self._overshoot = to_seconds(overshoot)

    def now(self) -> float:
        return EPOCH + self.time

    def monotonic(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds + self._overshoot)

    async def sleep(self, seconds: float) -> None:
        self.pause(seconds)

    def advance(self, seconds: Seconds) -> None:
        """Advance the time without a wait."""
        self.time += to_seconds(seconds)


@contextmanager
def virtual_time() -> Iterator[VirtualClock]:
    """Run all guarded calls of the process on a virtual clock, with closed breakers and full budgets.

    Only waits between attempts are virtual: a coroutine that hangs is cancelled after its real timeout.
    """
    from redrive.calls.dependency import DEPENDENCIES

    clock = VirtualClock()
    DEPENDENCIES.forget()
    SYSTEM_CLOCK.follow(clock)
    try:
        yield clock
    finally:
        SYSTEM_CLOCK.follow(None)
        DEPENDENCIES.forget()


class Harness:
    """An application under test: in-memory database, virtual clock, and work only when the test asks for it.

    Sync tasks are called directly, on the test's thread. A task that sleeps takes real time.
    `await run.result()` executes the rest of the run and advances the clock as needed.
    """

    def __init__(self, app: Redrive, *, seed: int = 0, inline: bool = False) -> None:
        from redrive.wiring import memory_database

        self._app = app
        self._original_parts = parts_of(app)
        self.clock = VirtualClock()
        parts = rewire(app, memory_database(self.clock), self.clock, Random(seed))
        parts.waiters.help = self._help
        parts.after_start = self.drain if inline else None
        self._worker: Worker | None = None

    async def drain(self) -> int:
        """Execute all ready steps, and those that become ready as a result. Return the number of attempts."""
        return await self._own_worker().work_off()

    async def advance(self, seconds: Seconds) -> int:
        """Advance the clock and execute each step when it becomes due. Return the number of attempts."""
        end = self.clock.time + to_seconds(seconds)
        executed = await self.drain()
        while (wait := await self._next_due()) is not None and self.clock.time + wait <= end:
            self.clock.advance(max(wait, 0.0))
            executed += await self.drain()
        self.clock.advance(max(0.0, end - self.clock.time))
        return executed + await self.drain()

    async def execute(self, work: str | AnyTask | Definition, payload: object = None, **options: Any) -> Any:
        """Start a run, execute it with all retries, and return its result, or raise RunFailedError."""
        run = await self._app.start(work, payload, **options)
        return await run.result()

    async def started(self, work: str | AnyTask | Definition | None = None) -> list[Run]:
        """List the started runs, oldest first."""
        from redrive.engine.task import name_of

        runs = await parts_of(self._app).store.runs.all()
        return [run for run in runs if work is None or run.workflow == name_of(work)]

    async def assert_started(
        self,
        work: str | AnyTask | Definition,
        payload: object = ...,
        *,
        times: int | None = None,
        **expected: Any,
    ) -> Run:
        """Check that a matching run was started, and return the newest.

        `expected` holds values of the run's fields: queue, priority, org and so on.
        """
        from redrive.engine.task import name_of
        from redrive.model.run import Run

        unknown = expected.keys() - set(Run.__struct_fields__)
        if unknown:
            raise InvalidValueError(f"a run has no field {min(unknown)!r}; it has {Run.__struct_fields__}")
        runs = await self.started(work)
        matches = [run for run in runs if _matches(run, payload, expected, parts_of(self._app).encryption)]
        wanted = repr(name_of(work)) + ("" if payload is ... else f" with {payload!r}")
        wanted += f" and {expected}" if expected else ""
        if times is not None and len(matches) != times:
            raise AssertionError(
                f"{wanted} was started {len(matches)} times, not {times}; {_described(runs)}"
            )
        if not matches and times != 0:
            raise AssertionError(f"{wanted} was not started; {_described(runs)}")
        return matches[-1] if matches else None  # type: ignore[return-value]

    async def assert_nothing_started(self) -> None:
        runs = await self.started()
        if runs:
            raise AssertionError(f"expected no runs to be started; {_described(runs)}")

    async def close(self) -> None:
        """Close the in-memory database and restore the application's own."""
        await self._app.close()
        self.restore()

    def restore(self) -> None:
        self._app._parts = self._original_parts

    def _own_worker(self) -> Worker:
        if self._worker is None:
            self._worker = parts_of(self._app).worker_in_test()
        return self._worker

    async def _next_due(self) -> float | None:
        """Seconds until the next event: work becomes due, or a breaker may change its state."""
        store = parts_of(self._app).store
        waits = [(await store.leases.next_due()).seconds, await store.redrives.next_due()]
        if await store.operations.running() or await store.rebuilds.running():
            waits.append(await self._own_worker().driver.tick())
        if await store.limits.holders():
            waits += [_seconds_until_change(breaker) for breaker in await parts_of(self._app).breakers.all()]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _help(self) -> bool:
        """Execute ready work instead of waiting for a worker; if there is none, advance the clock."""
        worker = self._own_worker()
        if await self.drain():
            return True
        if len(worker.in_flight):  # another caller is executing it
            await worker.in_flight.removed.wait()
            return True
        before = self.clock.time
        wait = await self._next_due()
        if wait is None or wait > MAX_WAIT_SECONDS:
            return False
        if self.clock.time == before:  # unless a caller that waits for another run has already advanced it
            self.clock.advance(max(wait, 0.0))
        await self.drain()
        return True


@asynccontextmanager
async def in_memory(app: Redrive, *, seed: int = 0, inline: bool = False) -> AsyncIterator[Harness]:
    """Run an application with an in-memory database and a virtual clock for the duration of a test.

    seed    the seed of all random numbers: jitter and ids
    inline  execute each run as soon as it is started, as far as that is possible without time passing
    """
    harness = Harness(app, seed=seed, inline=inline)
    try:
        yield harness
    finally:
        await harness.close()


def _seconds_until_change(breaker: SharedBreaker) -> float | None:
    """Seconds until the breaker may change; one second if it is no longer open and releases its work."""
    force = breaker.snapshot.force
    if force is not None and force.until is None:
        return None
    until = breaker.snapshot.open_until
    return 1.0 if until is None else max(0.001, until - breaker.row.now)


def _matches(run: Run, payload: object, expected: dict[str, Any], encryption: Encryption) -> bool:
    from redrive.engine.payload import to_json
    from redrive.policy.codec import decode

    if payload is not ... and decode(encryption.decrypt(run.input)) != to_json(payload):
        return False
    return all(getattr(run, name) == value for name, value in expected.items())


def _described(runs: list[Run]) -> str:
    if not runs:
        return "nothing was started"
    return "started: " + ", ".join(f"{run.workflow}({run.input})" for run in runs[-10:])
