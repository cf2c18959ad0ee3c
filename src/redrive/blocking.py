"""The application for programs without an event loop: the same methods, which wait for their results.

The async application does everything, on an event loop in a background thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from inspect import iscoroutinefunction
from threading import Lock, Thread
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from redrive.app import Redrive
from redrive.engine.definition import Definition
from redrive.engine.enqueue import DEFAULT_ORG, Prepared, StartOptions
from redrive.engine.handle import RunHandle
from redrive.engine.task import Task
from redrive.errors import InvalidValueError
from redrive.model.caller import APPLICATION
from redrive.store.joined import joined_session

P = ParamSpec("P")
T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a thread, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop, and wait for its result."""
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not None:
            coroutine.close()
            raise InvalidValueError("inside of an event loop use the application itself, not app.sync")
        return asyncio.run_coroutine_threadsafe(coroutine, self._started()).result()

    def stop(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close on the loop what runs there, then stop the loop; nothing when it was never started."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="redrive-sync", daemon=True)
                self._thread.start()
            return self._loop


class Facade:
    """An async object whose methods wait: those of its class by `waiting`."""

    def __init__(self, target: Any, loop: BackgroundLoop) -> None:
        self._target = target
        self._loop = loop

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"


def waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """A method of a facade that calls this async method of its target, and waits for the result."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._loop.wait_for(getattr(self._target, method.__name__)(*args, **kwargs))
        return result

    return call


class Waiting(Facade):
    """A facade without types, for objects that are reached from the application: their parts wait, too."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if iscoroutinefunction(found):
            return wraps(found)(lambda *args, **kwargs: self._loop.wait_for(found(*args, **kwargs)))
        return Waiting(found, self._loop) if _has_async_methods(type(found)) else found


def _has_async_methods(kind: type) -> bool:
    return any(iscoroutinefunction(getattr(kind, name, None)) for name in dir(kind))


class BlockingHandle(Facade):
    def __init__(self, handle: RunHandle, loop: BackgroundLoop) -> None:
        super().__init__(handle, loop)
        self.id = handle.id
        self.org = handle.org

    def __repr__(self) -> str:
        return f"<BlockingHandle {self.id}>"

    get = waiting(RunHandle.get)
    state = waiting(RunHandle.state)
    wait = waiting(RunHandle.wait)
    result = waiting(RunHandle.result)
    cancel = waiting(RunHandle.cancel)
    history = waiting(RunHandle.history)
    dead_letter = waiting(RunHandle.dead_letter)


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

    def start(
        self,
        work: str | Task | Definition,
        payload: object = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> BlockingHandle:
        """As Redrive.start; a connection of psycopg or SQLAlchemy is used on the calling thread."""
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

    def run(self, run_id: str, org: str = DEFAULT_ORG) -> BlockingHandle:
        return self._handle(self._app.run(run_id, org))

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

    def _start_within(self, connection: object, prepared: list[Prepared]) -> list[BlockingHandle]:
        session = joined_session(connection, self._app.database)
        if session.is_async:
            raise InvalidValueError("app.sync needs a sync connection; with an async one use app.start")
        self.wait_for(self._app.define(prepared))
        handles = session.run(self._app.start_within(session, prepared))
        return [self._handle(handle) for handle in handles]

    def _handle(self, handle: RunHandle) -> BlockingHandle:
        return BlockingHandle(handle, self._loop)
