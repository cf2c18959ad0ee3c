"""The invoker: calls a user function on the event loop, in a thread or in a process, with a timeout."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

from redrive.callables import bounded
from redrive.engine.context import Context
from redrive.engine.event_bus import EventBus
from redrive.engine.process import run_in_process
from redrive.engine.task import AnyTask, TaskIsolation
from redrive.engine.work import Work
from redrive.errors import AttemptTimeoutError
from redrive.model.event import ThreadAbandoned

_Outcome = tuple[Any, BaseException | None]
_Job = tuple[Callable[[], Any], asyncio.Future[_Outcome], asyncio.AbstractEventLoop]


class Threads:
    """A pool of threads. A thread whose function times out is abandoned and its result ignored."""

    def __init__(self, limit: int) -> None:
        self._room = asyncio.Semaphore(limit)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._idle = 0

    async def run(self, function: Callable[[], Any], on_start: Callable[[], float]) -> Any:
        """Call a function in a thread. `on_start` is called when it starts, and returns the timeout.

        Raises TimeoutError if the function takes longer; the thread is then abandoned.
        """
        async with self._room:
            seconds = on_start()
            future = self._begin(_in_context(function))
            try:
                result, error = await asyncio.wait_for(future, seconds)
            finally:
                future.cancel()
            self._idle += 1
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        for _ in range(self._idle):
            self._jobs.put(None)
        self._idle = 0

    def _begin(self, function: Callable[[], Any]) -> asyncio.Future[_Outcome]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Outcome] = loop.create_future()
        if self._idle > 0:
            self._idle -= 1
        else:  # before queueing the job: if no thread can be started, no thread may find the job later
            Thread(target=self._work, name="redrive-task", daemon=True).start()
        self._jobs.put((function, future, loop))
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, future, loop = job
            outcome = _outcome_of(function)
            try:
                loop.call_soon_threadsafe(_settle, future, outcome)
            except RuntimeError:  # the loop has been closed
                return
            del job, function, future, outcome


def _outcome_of(function: Callable[[], Any]) -> _Outcome:
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 — raised in the waiting task
        return None, error


def _settle(future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _in_context(function: Callable[[], Any]) -> Callable[[], Any]:
    context = contextvars.copy_context()
    return lambda: context.run(function)


class Invoker:
    """Calls task functions. Without `threads`, sync functions are called directly, as in tests."""

    def __init__(self, threads: Threads | None, event_bus: EventBus) -> None:
        self._threads = threads
        self._event_bus = event_bus

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    def call(self, task: AnyTask, work: Work, context: Context) -> Awaitable[Any]:
        """Call the function of a task. Await the returned value for the result."""
        if task.isolation is TaskIsolation.PROCESS:
            work.was_called = True
            return run_in_process(task, work, context)
        args, kwargs = task.signature.arguments(work.payload_text, context, work.step.config_text)
        if task.signature.is_async:
            work.was_called = True
            return bounded(task.function(*args, **kwargs), context)
        return self._call_sync(partial(task.function, *args, **kwargs), work, context)

    async def _call_sync(self, call: Callable[[], Any], work: Work, context: Context) -> Any:
        work.was_called = self._threads is None
        result = (
            call() if self._threads is None else await self._in_thread(self._threads, call, work, context)
        )
        return await bounded(result, context) if isinstance(result, Awaitable) else result

    async def _in_thread(
        self, threads: Threads, call: Callable[[], Any], work: Work, context: Context
    ) -> Any:

        def on_start() -> float:
            work.was_called = work.is_in_thread = True
            context.begin()
            return context.remaining()

        try:
            result = await threads.run(call, on_start)
        except TimeoutError as error:
            if isinstance(error, AttemptTimeoutError) or context.remaining() > 0.0:
                raise
            context.revoke()
            self._event_bus.emit(ThreadAbandoned(work.ref))
            raise context.out_of_time() from None
        finally:
            work.is_in_thread = False
        if work.interruption is not None:  # the function may have returned early because of it
            raise asyncio.CancelledError
        return result
