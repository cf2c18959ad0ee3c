"""The application for programs without an event loop: the same methods, waiting for their results.

Everything is done by the async application, on a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from functools import wraps
from inspect import iscoroutinefunction
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from redrive.engine.breakers import SharedBreaker
from redrive.engine.enqueue import DEFAULT_ORG, Prepared, StartOptions
from redrive.engine.handle import RunHandle
from redrive.engine.history import History
from redrive.errors import InvalidValueError
from redrive.model.caller import APPLICATION
from redrive.model.dead_letter import DeadLetter
from redrive.model.run import Cancellation, Run, RunState
from redrive.store.foreign import foreign_session
from redrive.store.limits import QueueRow, WorkerRow

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.engine.definition import Definition
    from redrive.engine.task import Task

T = TypeVar("T")


class BlockingHandle:
    def __init__(self, handle: RunHandle, blocking: Blocking) -> None:
        self._handle = handle
        self._wait = blocking.wait_for
        self.id = handle.id
        self.org = handle.org

    def __repr__(self) -> str:
        return f"<BlockingHandle {self.id}>"

    def get(self) -> Run:
        return self._wait(self._handle.get())

    def state(self) -> RunState:
        return self._wait(self._handle.state())

    def wait(self, timeout: float | None = None) -> RunState:
        return self._wait(self._handle.wait(timeout))

    def result(self, timeout: float | None = None) -> Any:
        return self._wait(self._handle.result(timeout))

    def cancel(self, *, by: str = APPLICATION, reason: str = "") -> Cancellation:
        return self._wait(self._handle.cancel(by=by, reason=reason))

    def history(self) -> History:
        return self._wait(self._handle.history())

    def dead_letter(self) -> DeadLetter | None:
        return self._wait(self._handle.dead_letter())


class Waiting:
    """The same object, whose methods wait for their results."""

    def __init__(self, target: object, blocking: Blocking) -> None:
        self._target = target
        self._blocking = blocking

    def __repr__(self) -> str:
        return f"<blocking {type(self._target).__name__}>"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if iscoroutinefunction(found):
            return wraps(found)(lambda *args, **kwargs: self._blocking.wait_for(found(*args, **kwargs)))
        return (
            Waiting(found, self._blocking) if type(found).__module__.startswith("redrive.engine") else found
        )


class Blocking:
    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def start(
        self,
        work: str | Task | Definition,
        payload: object = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> BlockingHandle:
        """As Redrive.start; a connection is one of psycopg or SQLAlchemy, and is used on this very thread."""
        if connection is None:
            return self._handle(self.wait_for(self._app.start(work, payload, **options)))
        key = options.pop("key", None)
        prepared = self._app.prepare(work, [payload], None if key is None else [key], options)
        return self._start_within(connection, prepared)[0]

    def start_many(
        self,
        work: str | Task | Definition,
        payloads: Iterable[object],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[BlockingHandle]:
        if connection is None:
            handles = self.wait_for(self._app.start_many(work, payloads, keys=keys, **options))
            return [self._handle(handle) for handle in handles]
        return self._start_within(connection, self._app.prepare(work, payloads, keys, options))

    def desk(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Any:
        """As Redrive.desk; every method of it, and of its parts, waits for its result."""
        return Waiting(self.wait_for(self._app.desk(org=org, by=by)), self)

    def directory(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Any:
        """As Redrive.directory: organizations, members and keys."""
        return Waiting(self.wait_for(self._app.directory(org=org, by=by)), self)

    def idempotency(self, *, org: str = DEFAULT_ORG) -> Any:
        """As Redrive.idempotency; its `run` waits for the result, and calls the function in a thread."""
        return Waiting(self._app.idempotency(org=org), self)

    def run(self, run_id: str, org: str = DEFAULT_ORG) -> BlockingHandle:
        return self._handle(self._app.run(run_id, org))

    def pause(self, queue: str, *, by: str = APPLICATION, reason: str = "") -> None:
        self.wait_for(self._app.pause(queue, by=by, reason=reason))

    def resume(self, queue: str, *, by: str = APPLICATION) -> None:
        self.wait_for(self._app.resume(queue, by=by))

    def queues(self) -> list[QueueRow]:
        return self.wait_for(self._app.queues())

    def workers(self) -> list[WorkerRow]:
        return self.wait_for(self._app.workers())

    def counts(self, org: str = DEFAULT_ORG) -> dict[str, int]:
        return self.wait_for(self._app.counts(org))

    def breaker_states(self) -> list[SharedBreaker]:
        return self.wait_for(self._app.breaker_states())

    def force_breaker(
        self,
        name: str,
        state: str,
        *,
        reason: str,
        by: str = APPLICATION,
        seconds: float | None = None,
    ) -> None:
        self.wait_for(self._app.force_breaker(name, state, reason=reason, by=by, seconds=seconds))

    def release_breaker(self, name: str, *, by: str = APPLICATION) -> None:
        self.wait_for(self._app.release_breaker(name, by=by))

    def close(self) -> None:
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(self._app.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have it done on the loop in the background, and wait for it."""
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not None:
            coroutine.close()
            raise InvalidValueError("inside of an event loop use the application itself, not app.sync")
        return asyncio.run_coroutine_threadsafe(coroutine, self._background()).result()

    def _start_within(self, connection: object, prepared: list[Prepared]) -> list[BlockingHandle]:
        session = foreign_session(connection, self._app.database)
        if session.is_async:
            raise InvalidValueError("app.sync needs a sync connection; with an async one use app.start")
        self.wait_for(self._app.define(prepared))
        handles = session.run(self._app.start_within(session, prepared))
        return [self._handle(handle) for handle in handles]

    def _handle(self, handle: RunHandle) -> BlockingHandle:
        return BlockingHandle(handle, self)

    def _background(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="redrive-sync", daemon=True)
                self._thread.start()
            return self._loop
