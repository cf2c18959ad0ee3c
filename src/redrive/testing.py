"""For the tests of programs that use Redrive: time that passes only when something waits for it.

with virtual_time() as clock:                     for guarded calls
    charge()                                      # retries without sleeping
assert clock.waits == [0.2, 0.4]

async with in_memory(app) as test:                for an application
    run = await app.start(checkout, order)
    await test.drain()                            # executes what is ready
    await test.advance(60)                        # a minute passes; executes what becomes due in it
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
    """A clock that stands still unless somebody waits, or advances it.

    time       seconds that have passed
    waits      the waits so far, in seconds
    overshoot  how much longer than asked every wait takes, as on a busy machine
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
        """Let time pass that nobody waits for."""
        self.time += to_seconds(seconds)


@contextmanager
def virtual_time() -> Iterator[VirtualClock]:
    """Run all guarded calls of the process on a virtual clock, with breakers closed and budgets full.

    Only waits between attempts are virtual: a coroutine that really hangs is stopped after its real timeout.
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
    """An application in a test: in memory, on a virtual clock, executing when the test says so.

    Sync tasks are called directly, on the thread of the test. What a task itself sleeps is really slept.
    `await run.result()` executes whatever the run still needs, and lets time pass for it.
    """

    def __init__(self, app: Redrive, *, seed: int = 0, inline: bool = False) -> None:
        from redrive.wiring import memory_database

        self._app = app
        self._before = parts_of(app)
        self.clock = VirtualClock()
        parts = rewire(app, memory_database(self.clock), self.clock, Random(seed))
        parts.waiters.help = self._help
        parts.after_start = self.drain if inline else None
        self._worker: Worker | None = None

    async def drain(self) -> int:
        """Execute what is ready, and what becomes ready by that. How many attempts were made."""
        return await self._own_worker().work_off()

    async def advance(self, seconds: Seconds) -> int:
        """Let time pass, execute what becomes due at its time, and return how many attempts were made."""
        end = self.clock.time + to_seconds(seconds)
        executed = await self.drain()
        while (wait := await self._next_due()) is not None and self.clock.time + wait <= end:
            self.clock.advance(max(wait, 0.0))
            executed += await self.drain()
        self.clock.advance(max(0.0, end - self.clock.time))
        return executed + await self.drain()

    async def execute(self, work: str | AnyTask | Definition, payload: object = None, **options: Any) -> Any:
        """Start it, execute it with all its retries, and give its result, or raise RunFailedError."""
        run = await self._app.start(work, payload, **options)
        return await run.result()

    async def started(self, work: str | AnyTask | Definition | None = None) -> list[Run]:
        """The runs that were started, oldest first."""
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
        """Was such a run started? `expected` are fields of the run: queue, priority, org, ..."""
        from redrive.engine.task import name_of
        from redrive.model.run import Run

        strangers = expected.keys() - set(Run.__struct_fields__)
        if strangers:
            raise InvalidValueError(f"a run has no field {min(strangers)!r}; it has {Run.__struct_fields__}")
        runs = await self.started(work)
        found = [run for run in runs if _fits(run, payload, expected, parts_of(self._app).encryption)]
        wanted = repr(name_of(work)) + ("" if payload is ... else f" with {payload!r}")
        wanted += f" and {expected}" if expected else ""
        if times is not None and len(found) != times:
            raise AssertionError(f"{wanted} was started {len(found)} times, not {times}; {_told(runs)}")
        if not found and times != 0:
            raise AssertionError(f"{wanted} was not started; {_told(runs)}")
        return found[-1] if found else None  # type: ignore[return-value]

    async def assert_nothing_started(self) -> None:
        runs = await self.started()
        if runs:
            raise AssertionError(f"something was started: {_told(runs)}")

    async def close(self) -> None:
        """Put the application back to where it was."""
        await self._app.close()
        self.restore()

    def restore(self) -> None:
        self._app._parts = self._before

    def _own_worker(self) -> Worker:
        if self._worker is None:
            self._worker = parts_of(self._app).worker_in_test()
        return self._worker

    async def _next_due(self) -> float | None:
        """Seconds until something happens by itself: work is due, or a breaker may move on."""
        store = parts_of(self._app).store
        waits = [await store.leases.next_due(), await store.redrives.next_due()]
        if await store.operations.running():
            waits.append(await self._own_worker().driver.tick())
        if await store.limits.holders():
            waits += [_until_moving(each) for each in await parts_of(self._app).breakers.all()]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _help(self) -> bool:
        """Instead of waiting: execute what is there, or let time pass until something is."""
        worker = self._own_worker()
        if await self.drain():
            return True
        if len(worker.in_flight):  # somebody else executes it just now
            await worker.in_flight.removed.wait()
            return True
        before = self.clock.time
        wait = await self._next_due()
        if wait is None or wait > MAX_WAIT_SECONDS:
            return False
        if self.clock.time == before:  # nobody else, waiting for another run, has let it pass already
            self.clock.advance(max(wait, 0.0))
        await self.drain()
        return True


@asynccontextmanager
async def in_memory(app: Redrive, *, seed: int = 0, inline: bool = False) -> AsyncIterator[Harness]:
    """Put an application on a database in memory and a virtual clock, for the time of a test.

    seed    of all its random numbers: jitters, ids
    inline  everything is executed as soon as it is started, as far as it can be without time passing
    """
    harness = Harness(app, seed=seed, inline=inline)
    try:
        yield harness
    finally:
        await harness.close()


def _until_moving(known: SharedBreaker) -> float | None:
    """A breaker that is not open any more releases what it holds in steps of a second."""
    force = known.snapshot.force
    if force is not None and force.until is None:
        return None
    until = known.snapshot.open_until
    return 1.0 if until is None else max(0.001, until - known.row.now)


def _fits(run: Run, payload: object, expected: dict[str, Any], encryption: Encryption) -> bool:
    from redrive.engine.payload import to_json
    from redrive.policy.codec import decode

    if payload is not ... and decode(encryption.decrypt(run.input)) != to_json(payload):
        return False
    return all(getattr(run, name) == value for name, value in expected.items())


def _told(runs: list[Run]) -> str:
    if not runs:
        return "nothing was started"
    return "started were: " + ", ".join(f"{run.workflow}({run.input})" for run in runs[-10:])
