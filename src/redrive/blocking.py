"""The blocking application, for programs without an event loop.

It has the same methods as the async application, which does the work on an event loop in a background thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from redrive.blocking_services import (
    SyncBreakers,
    SyncEvents,
    SyncFailures,
    SyncIdempotent,
    SyncMembers,
    SyncQueues,
    SyncRuns,
    SyncStreams,
    SyncWorkers,
)
from redrive.engine.background_loop import BackgroundLoop, Facade
from redrive.engine.definition import Definition
from redrive.engine.enqueue import DEFAULT_ORG, Prepared, StartOptions
from redrive.engine.handle import RunHandle, SyncRunHandle
from redrive.engine.task import TakesNothing, TakesOne, Task, name_of
from redrive.errors import InvalidValueError
from redrive.model.caller import APPLICATION
from redrive.store.joined import joined_session

if TYPE_CHECKING:
    from redrive.app import Redrive

A = TypeVar("A")
R = TypeVar("R")


class Blocking(Facade):
    """The blocking version of an application. Its services share the event loop `loop`."""

    def __init__(self, app: Redrive) -> None:
        super().__init__(app, BackgroundLoop())
        self._app = app
        self.loop = self._loop
        self.wait_for = self._loop.wait_for

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
        """As Redrive.start. A psycopg or SQLAlchemy connection is used on the calling thread."""
        if connection is None:
            return self._handle(self.wait_for(self._app.start(name_of(work), payload, **options)))
        prepared = self._app._parts.enqueuer.prepare(name_of(work), payload, options)
        return self._start_within(connection, [prepared])[0]

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
        name = name_of(work)
        if connection is None:
            handles = self.wait_for(self._app.start_many(name, payloads, keys=keys, **options))
            return [self._handle(handle) for handle in handles]
        prepared = self._app._parts.enqueuer.prepare_many(name, payloads, keys, options)
        return self._start_within(connection, list(prepared))

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

    def runs(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> SyncRuns:
        """As Redrive.runs."""
        return SyncRuns(self._app.runs(org=org, by=by), self._loop)

    def failures(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> SyncFailures:
        """As Redrive.failures."""
        return SyncFailures(self._app.failures(org=org, by=by), self._loop)

    def queues(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> SyncQueues:
        """As Redrive.queues."""
        return SyncQueues(self._app.queues(org=org, by=by), self._loop)

    def workers(self, *, org: str = DEFAULT_ORG) -> SyncWorkers:
        """As Redrive.workers."""
        return SyncWorkers(self._app.workers(org=org), self._loop)

    def events(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> SyncEvents:
        """As Redrive.events."""
        return SyncEvents(self._app.events(org=org, by=by), self._loop)

    def streams(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> SyncStreams:
        """As Redrive.streams."""
        return SyncStreams(self._app.streams(org=org, by=by), self._loop)

    def breakers(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> SyncBreakers:
        """As Redrive.breakers."""
        return SyncBreakers(self._app.breakers(org=org, by=by), self._loop)

    def members(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> SyncMembers:
        """As Redrive.members."""
        return SyncMembers(self._app.members(org=org, by=by), self._loop)

    @property
    def idempotent(self) -> SyncIdempotent:
        """As Redrive.idempotent."""
        return SyncIdempotent(self._app.idempotent, self._loop)

    def open(self) -> None:
        """As Redrive.open."""
        self.wait_for(self._app.open())

    def close(self) -> None:
        self._loop.stop(self._app.close)

    def _start_within(self, connection: object, prepared: Sequence[Prepared]) -> list[SyncRunHandle[Any]]:
        parts = self._app._parts
        session = joined_session(connection, parts.database)
        if session.is_async:
            raise InvalidValueError(
                "app.sync.start needs a sync connection; with an async connection, use app.start"
            )
        self.wait_for(parts.enqueuer.define(prepared))
        handles = session.run(parts.start_within(session, prepared))
        return [self._handle(handle) for handle in handles]

    def _handle(self, handle: RunHandle[R]) -> SyncRunHandle[R]:
        return SyncRunHandle(handle, self._loop)
