"""An event loop in a background thread, and facades whose methods block until it returns a result.

A forked child starts a new loop on first use. The thread rests during the fork.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from threading import Lock, Thread, current_thread
from typing import Any, Concatenate, ParamSpec, TypeVar

from redrive.errors import InvalidValueError
from redrive.forking import Pause, join_forks, never_finalize
from redrive.renamed import NamesRenamed

P = ParamSpec("P")
T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a thread, started on first use."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._pause: Pause | None = None
        join_forks(self)

    def before_fork(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and thread is not current_thread():
            self._pause = pause = Pause()
            loop.call_soon_threadsafe(pause.wait)
            pause.await_rest()

    def after_fork_in_parent(self) -> None:
        if self._pause is not None:
            self._pause.end()
            self._pause = None

    def after_fork_in_child(self) -> None:
        never_finalize(self._loop)
        self._lock = Lock()
        self._loop = self._thread = self._pause = None

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop and wait for its result."""
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not None:
            coroutine.close()
            raise InvalidValueError(
                "app.sync would block the running event loop; in async code, await the app's own methods"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._running_loop()).result()

    def stop(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `close` on the loop, then stop the loop. Do nothing if the loop was never started."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="redrive-sync", daemon=True)
                self._thread.start()
            return self._loop


class Facade(NamesRenamed):
    """A blocking version of an async object. Subclasses declare their methods with `waiting`."""

    def __init__(self, target: Any, loop: BackgroundLoop) -> None:
        self._target = target
        self._loop = loop

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"


def waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return a facade method that calls this async method of the target and waits for the result."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._loop.wait_for(getattr(self._target, method.__name__)(*args, **kwargs))
        return result

    return call
