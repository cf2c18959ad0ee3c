"""An event loop in a background thread, for programs without one, and facades whose methods wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from threading import Lock, Thread
from typing import Any, Concatenate, ParamSpec, TypeVar

from redrive.errors import InvalidValueError
from redrive.renamed import NamesRenamed

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


class Facade(NamesRenamed):
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
