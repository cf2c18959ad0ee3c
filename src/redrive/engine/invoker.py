"""Calling a user's function: on the loop, in a thread, or in a process of its own, and never for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from redrive.callables import bounded
from redrive.engine.context import Context
from redrive.engine.event_bus import EventBus
from redrive.engine.process import run_in_process
from redrive.engine.task import Task, TaskIsolation
from redrive.engine.threads import Threads
from redrive.engine.work import Work
from redrive.errors import AttemptTimeoutError
from redrive.model.event import ThreadAbandoned


class Invoker:
    """`threads` is None where sync functions are called directly, as in tests."""

    def __init__(self, threads: Threads | None, event_bus: EventBus) -> None:
        self._threads = threads
        self._event_bus = event_bus

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    async def invoke(self, task: Task, work: Work, context: Context) -> Any:
        if task.isolation is TaskIsolation.PROCESS:
            work.begun = True
            return await run_in_process(task, work, context)
        args, kwargs = task.signature.arguments(work.payload, context, work.step.config)
        if task.signature.is_async:
            work.begun = True
            return await bounded(task.function(*args, **kwargs), context)
        call = partial(task.function, *args, **kwargs)
        work.begun = self._threads is None
        result = (
            call() if self._threads is None else await self._in_thread(self._threads, call, work, context)
        )
        return await bounded(result, context) if isinstance(result, Awaitable) else result

    async def _in_thread(
        self, threads: Threads, call: Callable[[], Any], work: Work, context: Context
    ) -> Any:

        def begun() -> float:
            work.begun = True
            context.begin()
            return context.remaining()

        try:
            return await threads.run(call, begun)
        except TimeoutError as error:
            if isinstance(error, AttemptTimeoutError) or context.remaining() > 0.0:
                raise
            context.cancel()
            self._event_bus.emit(ThreadAbandoned(work.ref))
            raise context.out_of_time() from None
