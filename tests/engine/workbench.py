"""Tools for the tests of the engine.

An application in memory that cannot hang, faults at the seam of the database, and checks of the invariants.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from redrive.app import Redrive
from redrive.engine.worker import Worker
from redrive.errors import StoreUnavailableError
from redrive.model.event import Event
from redrive.model.run import RUN_TRANSITIONS, Run, RunState
from redrive.model.step import STEP_TRANSITIONS, StepState
from redrive.parts import parts_of, rewire
from redrive.settings import Settings
from redrive.store.database import OpenTransaction, Row, Session
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import SqlQuery, Statement
from redrive.testing import Harness, in_memory

PATIENCE = 60.0
"""Real seconds after which a hanging test fails."""

TERMINAL = (RunState.SUCCESS, RunState.FAILED, RunState.DLQ_PENDING, RunState.CANCELLED)
WITH_LETTER = (RunState.FAILED, RunState.DLQ_PENDING)

E = TypeVar("E", bound=Event)


def new_app(url: str = "sqlite://:memory:", *, org_concurrency: int | None = None, **options: Any) -> Redrive:
    return Redrive(url, settings=Settings(org_concurrency=org_concurrency), log=False, **options)


def app_at(path: Path) -> Redrive:
    return new_app(f"sqlite:///{path}", durable=False)


@asynccontextmanager
async def bench(
    app: Redrive, *, seed: int = 0, inline: bool = False, timeout: float = PATIENCE
) -> AsyncIterator[Harness]:
    """Run the application in memory, and fail after a while instead of hanging forever."""
    async with in_memory(app, seed=seed, inline=inline) as test, asyncio.timeout(timeout):
        yield test


@asynccontextmanager
async def working(app: Redrive, *, timeout: float = PATIENCE, **options: Any) -> AsyncIterator[Worker]:
    """Run a real worker on real time, in this process."""
    await app.open()
    worker = app.worker(**{"poll_seconds": 0.05, "grace_seconds": 2.0, **options})
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(timeout):
            yield worker
            worker.stop()
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await app.close()


class EventCollector:
    """A listener that collects events."""

    def __init__(self, app: Redrive) -> None:
        self.events: list[Event] = []
        app.listen(self.events.append)

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]


async def sql(app: Redrive, text: str, *values: Any) -> list[Row]:
    """Query or change the tables directly."""
    names = tuple(f"v{number}" for number in range(len(values)))
    query = SqlQuery("by hand", text, names)
    return await parts_of(app).database.fetch(Statement(query, query), dict(zip(names, values, strict=True)))


async def lose_lease(app: Redrive, run_id: str, *, worker: str = "another") -> None:
    """Act as another worker that has reclaimed the lease and then died."""
    change = "UPDATE runs SET token = token + 1, worker = ?2, leased_until = 0"
    await sql(app, f"{change} WHERE id = ?1 AND place = 'leased'", run_id, worker)


async def slots_in_use(app: Redrive) -> dict[str, int]:
    return {row[0]: row[1] for row in await sql(app, "SELECT name, in_use FROM limits")}


async def settle(test: Harness, app: Redrive, *, step: float = 600.0, most: int = 400) -> None:
    """Let time pass until every run has ended."""
    for _ in range(most):
        await test.advance(step)
        if all(run.place == "ended" for run in await test.started()):
            return
    places = Counter(run.place for run in await test.started())
    raise AssertionError(f"not everything has ended: {places}")


async def check_ended(app: Redrive, started: int) -> list[Run]:
    """I1, I7, I16: every run has ended, and has a live dead letter exactly if it needs one."""
    runs = await parts_of(app).store.runs.all()
    assert len(runs) == started
    [[counted]] = await sql(app, f"SELECT count(*) FROM runs WHERE state IN {tuple(map(str, TERMINAL))}")
    assert counted == started
    live: dict[str, list[int]] = {}
    for run_id, index in await sql(app, "SELECT run_id, step_index FROM dead_letters WHERE state = 'OPEN'"):
        live.setdefault(run_id, []).append(index)
    for run in runs:
        assert (run.place, run.due_at, run.held_by) == ("ended", None, None), run
        assert live.pop(run.id, []) == ([run.step_index] if run.state in WITH_LETTER else []), run
    assert not live
    assert not any((await slots_in_use(app)).values())
    return runs


class Seam:
    """A database that fails where a test wants, and checks that every change of a state is allowed (I10).

    fail("complete", after=True)   the next execution of that statement is committed, but the answer is lost
    fail("complete")               it fails and writes nothing
    before("occupy", action)       calls `action` right before the next execution of that statement
    """

    def __init__(self, database: SqliteDatabase, *, watch: bool = False) -> None:
        self._database = database
        self._faults: list[tuple[str, bool, BaseException]] = []
        self._actions: list[tuple[str, Callable[[], Any], bool]] = []
        self._watch = watch
        self._states: dict[str, tuple[str, int, str]] = {}
        self.executed: list[str] = []
        self.triggered: list[str] = []
        self.down = False
        self.another_down = False

    def fail(
        self, statement: str, *, after: bool = False, times: int = 1, error: BaseException | None = None
    ) -> None:
        error = StoreUnavailableError("the line is cut") if error is None else error
        self._faults += [(statement, after, error)] * times

    def before(self, statement: str, action: Callable[[], Any]) -> None:
        self._actions.append((statement, action, False))

    def after(self, statement: str, action: Callable[[], Any]) -> None:
        self._actions.append((statement, action, True))

    @property
    def in_memory(self) -> bool:
        return self._database.in_memory

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._guarded(statement, self._database.fetch(statement, parameters))

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        return await self._guarded(statement, self._database.fetch_many(statement, rows))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        if self.down:
            raise StoreUnavailableError("the database is away")
        inner = _Inner(self)
        async with self._database.transaction() as session:
            inner.session = session
            yield inner
            for name in inner.names:
                self._bite(name, after=False)
        await self._see()
        for name in inner.names:
            self._bite(name, after=True)
            await self._act(name, after=True)

    async def migrate(self) -> None:
        await self._database.migrate()

    def another(self) -> Seam | SqliteDatabase:
        if self.in_memory:
            return self
        other = Seam(self._database.another())
        other.parent = self
        return other

    parent: Seam | None = None

    def tenant(self, org: str, seconds: float) -> Session:
        return self if self.in_memory else self._database.tenant(org, seconds)

    async def enable_row_level_security(self) -> None:
        await self._database.enable_row_level_security()

    async def serve_only(self, org: str) -> None:
        await self._database.serve_only(org)

    def require_isolated(self, org: str) -> None:
        self._database.require_isolated(org)

    async def hint(self, queues: Sequence[str]) -> None:
        await self._database.hint(queues)

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        return self._database.listen(heard)

    async def wait_for_cancelled(self) -> None:
        await self._database.wait_for_cancelled()

    async def close(self) -> None:
        await self._database.close()

    async def _guarded(self, statement: Statement, execution: Coroutine[Any, Any, list[Row]]) -> list[Row]:
        name = statement.sqlite.name.removesuffix("_within")
        try:
            if self.down or (self.parent is not None and self.parent.another_down):
                raise StoreUnavailableError("the database is away")
            self._bite(name, after=False)
            await self._act(name, after=False)
            rows = await execution
        finally:
            execution.close()
        self.executed.append(name)
        await self._see()
        self._bite(name, after=True)
        await self._act(name, after=True)
        return rows

    def _bite(self, name: str, *, after: bool) -> None:
        for number, (wanted, when, error) in enumerate(self._faults):
            if wanted == name and when == after:
                del self._faults[number]
                self.triggered.append(name)
                raise error

    async def _act(self, name: str, *, after: bool) -> None:
        for number, (wanted, action, when) in enumerate(self._actions):
            if wanted == name and when == after:
                del self._actions[number]
                await action()
                return

    async def _see(self) -> None:
        """Compare all states with those before."""
        if not self._watch:
            return
        query = SqlQuery("watch", "SELECT id, state, step_index, step_state FROM runs", ())
        for run_id, state, index, step_state in await self._database.fetch(Statement(query, query), {}):
            before = self._states.get(run_id, (RunState.PENDING, 0, StepState.PENDING))
            _check_change(before, (state, index, step_state))
            self._states[run_id] = (state, index, step_state)


class _Inner(OpenTransaction):
    session: Session

    def __init__(self, seam: Seam) -> None:
        self._seam = seam
        self.names: list[str] = []

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        self.names.append(statement.sqlite.name)
        self._seam.executed.append(statement.sqlite.name)
        return await self.session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        self.names.append(statement.sqlite.name)
        self._seam.executed.append(statement.sqlite.name)
        return await self.session.fetch_many(statement, rows)


def _check_change(before: tuple[str, int, str], after: tuple[str, int, str]) -> None:
    if before[0] != after[0]:
        RUN_TRANSITIONS.check(RunState(before[0]), RunState(after[0]))
    if before[1] == after[1]:
        if before[2] != after[2]:
            STEP_TRANSITIONS.check(StepState(before[2]), StepState(after[2]))
        return
    assert after[1] == before[1] + 1
    STEP_TRANSITIONS.check(StepState(before[2]), StepState.SUCCESS)
    assert after[2] in (StepState.PENDING, StepState.RUNNING)


@asynccontextmanager
async def seamed(
    app: Redrive, *, seed: int = 0, watch: bool = False, timeout: float = PATIENCE
) -> AsyncIterator[tuple[Harness, Seam]]:
    """Like `bench`, with faults at the seam of the database."""
    async with bench(app, seed=seed, timeout=timeout) as test:
        database = parts_of(app).database
        assert isinstance(database, SqliteDatabase)
        seam = Seam(database, watch=watch)
        waiters, after_start = parts_of(app).waiters, parts_of(app).after_start
        rewire(app, seam, test.clock, parts_of(app).random)
        parts_of(app).waiters.help, parts_of(app).after_start = waiters.help, after_start
        yield test, seam
