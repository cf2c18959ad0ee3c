"""The seam between a process and the shared database, where faults occur."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from tests.simulation.loop import Process
from tests.simulation.script import FaultKind
from tests.simulation.serial_database import RequestContext
from tests.simulation.stage import Stage
from tests.statements import does

from redrive.errors import StoreUnavailableError
from redrive.store.database import Database, OpenTransaction, Row, Session
from redrive.store.statement import Statement

T = TypeVar("T")

_AHEAD = (FaultKind.SLOW, FaultKind.REFUSE, FaultKind.CRASH_BEFORE)
_INSIDE = (FaultKind.FAIL_INSIDE, FaultKind.CRASH_INSIDE)
_AFTERWARDS = (
    FaultKind.LATE_ANSWER,
    FaultKind.LOSE_ANSWER,
    FaultKind.CRASH_AFTER,
    FaultKind.FREEZE_AFTER,
)


class Executed(NamedTuple):
    """A statement with its parameters and rows; `asked_at` is when the process sent it."""

    name: str
    given: Sequence[Any]
    rows: list[Row]
    asked_at: float

    @property
    def effective_name(self) -> str:
        """Return its name, or an empty one if it found nothing to do: a fault there would prove nothing."""
        return "" if self.name in _SEEKING and not self.rows else self.name


_SEEKING = (
    "claim",
    "claim_alone",
    "reclaim",
    "promote",
    "release",
    "adopt",
    "pick",
    "lock_due",
    "lock_running",
)


class Committed(Protocol):
    def committed(self, process: Process, executed: Sequence[Executed]) -> None: ...

    def rolled_back(self) -> None: ...


class Seam:
    """The database of one process.

    `in_memory` makes a task renew leases, because threads lack virtual time.
    """

    in_memory = True

    def __init__(
        self, stage: Stage, process: Process, target: str, database: Database, witness: Committed
    ) -> None:
        self._stage = stage
        self._loop = stage.loop
        self._process = process
        self._target = target
        self._database = database
        self._witness = witness
        self.closed = False

    def another(self) -> Seam:
        return self

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._alone(statement, [parameters], lambda: self._database.fetch(statement, parameters))

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        return await self._alone(statement, rows, lambda: self._database.fetch_many(statement, rows))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        await self.ahead("begin")
        visit = await self._stage.serial_database.enter(self._process)
        transaction = self._database.transaction()
        try:
            inner = Inner(self, visit, await self.performed(transaction.__aenter__))
            visit.roll_back = partial(self._roll_back, transaction)
            yield inner
            inner.check()
            await self.performed(lambda: transaction.__aexit__(None, None, None))
            self._witness.committed(self._process, inner.executed)
        except BaseException:
            self._stage.releasing.pop(self._process, None)
            await self._give_up(visit)
            raise
        finally:
            self._stage.serial_database.leave(visit)
        self._stage.note(self._process, "commit")
        try:
            await self._afterwards([each.effective_name for each in inner.executed])
        finally:
            self._stage.releasing.pop(self._process, None)

    async def migrate(self) -> None:
        """Do nothing else: a history starts on an empty database whose tables exist."""
        await self.ahead("migrate")

    def tenant(self, _org: str, _seconds: float) -> Seam:
        return self

    async def enable_row_level_security(self) -> None:
        """Do nothing: in a history, only the statements separate organizations."""

    async def serve_only(self, org: str) -> None:
        """Do nothing: a history has no row-level security."""

    def require_isolated(self, org: str) -> None:
        """Do nothing: a history has no row-level security."""

    async def hint(self, queues: Sequence[str]) -> None:
        """Deliver most hints to the listening processes, and drop the others."""
        for heard, process in list(self._stage.listeners.items()):
            if process.alive and self._stage.random.random() < 0.8:
                for queue in queues:
                    heard(queue)

    @asynccontextmanager
    async def listen(self, heard: Callable[[str], None]) -> AsyncIterator[None]:
        self._stage.listeners[heard] = self._process
        try:
            yield
        finally:
            del self._stage.listeners[heard]

    async def wait_for_cancelled(self) -> None:
        """Do nothing: a cancelled statement of the simulation has already ended."""

    async def close(self) -> None:
        self.closed = True

    # A single statement

    async def _alone(
        self,
        statement: Statement,
        given: Sequence[Any],
        execute: Callable[[], Coroutine[Any, Any, list[Row]]],
    ) -> list[Row]:
        name = does(statement.sqlite.name)
        executed = Executed(name, given, [], self._loop.time())
        await self.ahead(name)
        visit = await self._stage.serial_database.enter(self._process)
        try:
            rows = await self.performed(execute)
            self._stage.note(self._process, f"{name} {len(rows)}")
            executed = executed._replace(rows=rows)
            self._witness.committed(self._process, [executed])
        except BaseException:
            self._witness.rolled_back()
            raise
        finally:
            self._stage.serial_database.leave(visit)
        await self._afterwards([executed.effective_name])
        return rows

    async def performed(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Perform an action: in memory without a delay, on a real database in real time, and to its end."""
        if self._database.in_memory:
            return await action()
        self._loop.outside += 1
        task = self._loop.start(self._loop.director, self._outside(action))
        result: T = await asyncio.shield(task)
        return result

    async def _outside(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await action()
        finally:
            self._loop.outside -= 1

    async def _give_up(self, visit: RequestContext) -> None:
        if visit.roll_back is not None and not visit.over:
            await visit.roll_back()

    async def _roll_back(self, transaction: AbstractAsyncContextManager[Session]) -> None:
        self._stage.note(self._process, "roll back")
        error = StoreUnavailableError("rolled back")
        await self.performed(lambda: _ended(transaction, error))
        self._witness.rolled_back()

    # Faults

    async def ahead(self, name: str) -> None:
        self._check_line()
        await self._stage.pass_time()
        while (fault := self._stage.take(self._target, _AHEAD, [name])) is not None:
            if fault.kind is FaultKind.SLOW:
                self._stage.count("slow statement", self._process)
                await asyncio.sleep(fault.seconds)
            elif fault.kind is FaultKind.REFUSE:
                self._stage.count("refused statement", self._process)
                raise StoreUnavailableError("the line is cut")
            else:
                await self.die("crash before a statement")
        self._check_line()

    async def inside(self, name: str) -> None:
        """Raise the fault that is due inside a transaction, after this statement."""
        fault = self._stage.take(self._target, _INSIDE, [name])
        if fault is not None and fault.kind is FaultKind.FAIL_INSIDE:
            self._stage.count("failure inside a transaction", self._process)
            raise StoreUnavailableError("the line is cut")
        if fault is not None:
            await self.die("crash inside a transaction")
        await self._stage.pass_time()

    async def _afterwards(self, names: list[str]) -> None:
        while (fault := self._stage.take(self._target, _AFTERWARDS, names)) is not None:
            if fault.kind is FaultKind.LATE_ANSWER:
                self._stage.count("late answer", self._process)
                await asyncio.sleep(fault.seconds)
            elif fault.kind is FaultKind.LOSE_ANSWER:
                self._stage.count("lost acknowledgement", self._process)
                raise StoreUnavailableError("the line is cut")
            elif fault.kind is FaultKind.FREEZE_AFTER:
                self._stage.freeze(self._process, fault.seconds)
            else:
                await self.die("crash after a commit")
        await self._stage.pass_time()
        self._check_line()

    async def die(self, how: str) -> None:
        self._stage.count(how, self._process)
        self._stage.crash(self._process)
        await self._loop.create_future()

    def _check_line(self) -> None:
        if self._stage.down:
            self._stage.count("database outage", self._process)
        if self._stage.down or self.closed:
            raise StoreUnavailableError("the database is away")


class Inner(OpenTransaction):
    """Statements inside a transaction."""

    def __init__(self, seam: Seam, visit: RequestContext, session: Session) -> None:
        self._seam = seam
        self._visit = visit
        self._session = session
        self.executed: list[Executed] = []

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._do(statement, [parameters], lambda: self._session.fetch(statement, parameters))

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        return await self._do(statement, rows, lambda: self._session.fetch_many(statement, rows))

    def check(self) -> None:
        if self._visit.over:
            raise StoreUnavailableError("the server has ended the transaction: it was idle for too long")

    async def _do(
        self,
        statement: Statement,
        given: Sequence[Any],
        execute: Callable[[], Coroutine[Any, Any, list[Row]]],
    ) -> list[Row]:
        self.check()
        name, asked_at = does(statement.sqlite.name), self._seam._loop.time()
        rows = await self._seam.performed(execute)
        self._seam._stage.note(self._seam._process, f"· {name} {len(rows)}")
        executed = Executed(name, given, rows, asked_at)
        self.executed.append(executed)
        if executed.effective_name == "pick":
            self._seam._stage.releasing[self._seam._process] = given[0]["operation_id"]
        await self._seam.inside(executed.effective_name)
        return rows


async def _ended(transaction: AbstractAsyncContextManager[Session], error: BaseException) -> None:
    """Roll back. The context manager raises the same error again."""
    await transaction.__aexit__(type(error), error, None)
