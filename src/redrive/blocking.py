"""The application for programs without an event loop: the same methods, which wait for their results.

The async application does everything, on an event loop in a background thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar, Unpack, overload

from redrive.app import Redrive, name_of
from redrive.engine.background_loop import BackgroundLoop, Facade, waiting
from redrive.engine.definition import Definition
from redrive.engine.enqueue import DEFAULT_ORG, Prepared, StartOptions
from redrive.engine.handle import RunHandle, SyncRunHandle
from redrive.engine.task import TakesNothing, TakesOne, Task
from redrive.errors import InvalidValueError
from redrive.model.caller import APPLICATION
from redrive.store.joined import joined_session

A = TypeVar("A")
R = TypeVar("R")


class Waiting(Facade):
    """A facade without types, for objects that are reached from the application: their parts wait, too."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if iscoroutinefunction(found):
            return wraps(found)(lambda *args, **kwargs: self._loop.wait_for(found(*args, **kwargs)))
        return Waiting(found, self._loop) if _has_async_methods(type(found)) else found


def _has_async_methods(kind: type) -> bool:
    return any(iscoroutinefunction(getattr(kind, name, None)) for name in dir(kind))


class Blocking(Facade):
    """`loop` runs the application; facades of its queues share it."""

    def __init__(self, app: Redrive) -> None:
        super().__init__(app, BackgroundLoop())
        self._app = app
        self.loop = self._loop
        self.wait_for = self._loop.wait_for

    pause = waiting(Redrive.pause)
    resume = waiting(Redrive.resume)
    queues = waiting(Redrive.queues)
    workers = waiting(Redrive.workers)
    counts = waiting(Redrive.counts)
    breaker_states = waiting(Redrive.breaker_states)
    force_breaker = waiting(Redrive.force_breaker)
    release_breaker = waiting(Redrive.release_breaker)

    @overload
    def start(
        self,
        work: TakesOne[A, R],
        payload: A,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> SyncRunHandle[R]: ...

    @overload
    def start(
        self,
        work: TakesNothing[R],
        payload: None = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> SyncRunHandle[R]: ...

    @overload
    def start(
        self,
        work: str | Definition,
        payload: object = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> SyncRunHandle[Any]: ...

    def start(
        self,
        work: object,
        payload: object = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> SyncRunHandle[Any]:
        """As Redrive.start; a connection of psycopg or SQLAlchemy is used on the calling thread."""
        if connection is None:
            return self._handle(self.wait_for(self._app.start(name_of(work), payload, **options)))
        key = options.pop("key", None)
        prepared = self._app.prepare(work, [payload], None if key is None else [key], options)
        return self._start_within(connection, prepared)[0]

    @overload
    def start_many(
        self,
        work: TakesOne[A, R],
        payloads: Iterable[A],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[SyncRunHandle[R]]: ...

    @overload
    def start_many(
        self,
        work: TakesNothing[R],
        payloads: Iterable[None],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[SyncRunHandle[R]]: ...

    @overload
    def start_many(
        self,
        work: str | Definition,
        payloads: Iterable[object],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[SyncRunHandle[Any]]: ...

    def start_many(
        self,
        work: object,
        payloads: Iterable[object],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[SyncRunHandle[Any]]:
        """As Redrive.start_many."""
        if connection is None:
            name = name_of(work)
            handles = self.wait_for(self._app.start_many(name, payloads, keys=keys, **options))
            return [self._handle(handle) for handle in handles]
        return self._start_within(connection, self._app.prepare(work, payloads, keys, options))

    @overload
    def run(self, run_id: str, org: str = DEFAULT_ORG) -> SyncRunHandle[Any]: ...

    @overload
    def run(self, run_id: str, org: str = DEFAULT_ORG, *, task: Task[..., R]) -> SyncRunHandle[R]: ...

    def run(
        self, run_id: str, org: str = DEFAULT_ORG, *, task: Task[..., Any] | None = None
    ) -> SyncRunHandle[Any]:
        """As Redrive.run."""
        if task is None:
            return self._handle(self._app.run(run_id, org))
        return self._handle(self._app.run(run_id, org, task=task))

    def desk(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Any:
        """As Redrive.desk; the methods of its parts wait, too."""
        return Waiting(self.wait_for(self._app.desk(org=org, by=by)), self._loop)

    def directory(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Any:
        """As Redrive.directory: organizations, members and keys."""
        return Waiting(self.wait_for(self._app.directory(org=org, by=by)), self._loop)

    def idempotency(self, *, org: str = DEFAULT_ORG) -> Any:
        """As Redrive.idempotency; its `run` calls the function in a thread."""
        return Waiting(self._app.idempotency(org=org), self._loop)

    def close(self) -> None:
        self._loop.stop(self._app.close)

    def _start_within(self, connection: object, prepared: list[Prepared]) -> list[SyncRunHandle[Any]]:
        session = joined_session(connection, self._app.database)
        if session.is_async:
            raise InvalidValueError("app.sync needs a sync connection; with an async one use app.start")
        self.wait_for(self._app.define(prepared))
        handles = session.run(self._app.start_within(session, prepared))
        return [self._handle(handle) for handle in handles]

    def _handle(self, handle: RunHandle[R]) -> SyncRunHandle[R]:
        return SyncRunHandle(handle, self._loop)
