"""Virtual time and virtual processes: an event loop that the seed schedules.

Everything runs on one thread. Each handle belongs to the process whose context it carries; within a process
they run in order, between processes the seed chooses. When nothing can run, time jumps to the next timer.

A process that crashes never runs again, as after kill -9: no `finally`, no cancellation. A frozen process
runs nothing until it is thawed, as after SIGSTOP, while time passes for the others.
"""

from __future__ import annotations

import asyncio
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any

MAX_REAL_WAIT_LENGTH = 60.0
"""Real seconds that a real database may take to answer."""


MAX_STEPS = 3_000_000
"""After this many handles, a history counts as an endless loop without passing time."""


class Process:
    """A simulated operating system process."""

    __slots__ = ("alive", "context", "frozen", "name", "queue", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.queue: deque[Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return self.name


PROCESS: ContextVar[Process] = ContextVar("PROCESS")


class VirtualLoop(asyncio.SelectorEventLoop):
    """The event loop.

    `outside` counts actions that depend on real time, such as a statement of a real server.
    """

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random.random
        self._now = 0.0
        self._timers: list[tuple[float, int, TimerHandle, Process]] = []
        self._made = 0
        self._runnable: list[Process] = []
        self._from_threads: deque[Handle] = deque()
        self._steps = 0
        self.director = Process("director")
        self.outside = 0

    def time(self) -> float:
        return self._now

    # Processes

    def start(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.create_task(work, context=process.context)

    def crash(self, process: Process) -> None:
        self._leave(process)
        process.alive = False

    def freeze(self, process: Process) -> None:
        self._leave(process)
        process.frozen = True

    def thaw(self, process: Process) -> None:
        process.frozen = False
        if process.queue and process not in self._runnable:
            self._runnable.append(process)

    def revive(self, process: Process) -> None:
        """Let its tasks be cancelled at the very end, after all checks.

        The loop therefore keeps the handles of a dead process: asyncio can't cancel a task without its
        handle.
        """
        process.alive = True
        self.thaw(process)

    def _leave(self, process: Process) -> None:
        if process in self._runnable:
            self._runnable.remove(process)

    # The methods that asyncio calls on a loop

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        context = options.get("context")
        process = PROCESS.get(self.director) if context is None else context.get(PROCESS, self.director)
        process.tasks.append(task)  # kept alive: collecting a coroutine would run its finally
        return task

    def call_soon(  # type: ignore[override]  # plainer types than asyncio's
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        if context is None:
            context = copy_context()
        handle = Handle(callback, args, self, context)
        self._put(handle, context.get(PROCESS, self.director))
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # plainer types than asyncio's
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        if context is None:
            context = copy_context()
        if context.get(PROCESS) is not None:
            return self.call_soon(callback, *args, context=context)
        handle = Handle(callback, args, self, context)
        self._from_threads.append(handle)
        self._write_to_self()  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> TimerHandle:
        if context is None:
            context = copy_context()
        timer = TimerHandle(when, callback, args, self, context)
        self._made += 1
        heappush(self._timers, (when, self._made, timer, context.get(PROCESS, self.director)))
        return timer

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Keep the handle in the heap until its time."""

    def _add_callback(self, handle: Handle) -> None:
        """Run callbacks of sockets in the director, which never crashes, whichever process opened them."""
        self._put(handle, self.director)

    # Running

    def _put(self, handle: Handle, process: Process) -> None:
        if not process.queue and process.alive and not process.frozen:
            self._runnable.append(process)
        process.queue.append(handle)

    def _run_once(self) -> None:
        runnable = self._runnable
        if self._from_threads or not runnable:
            self._wait()
        if self._steps > MAX_STEPS:
            raise RuntimeError("the history turns in circles")
        while runnable and not self._stopping:  # type: ignore[attr-defined]
            index = int(self._random() * len(runnable)) if len(runnable) > 1 else 0
            process = runnable[index]
            handle = process.queue.popleft()
            if not process.queue:
                del runnable[index]
            self._steps += 1
            if not handle._cancelled:
                handle._run()

    def _wait(self) -> None:
        if self.outside:
            self._wait_outside()
        while self._from_threads:
            self._put(self._from_threads.popleft(), self.director)
        while not self._runnable and not self.outside:
            self._jump()

    def _wait_outside(self) -> None:
        events = self._selector.select(MAX_REAL_WAIT_LENGTH)  # type: ignore[attr-defined]
        if not events:
            raise TimeoutError("a real database does not answer")
        self._process_events(events)  # type: ignore[attr-defined]

    def _jump(self) -> None:
        """Jump to the next timer, and run all timers that are due then."""
        if not self._timers:
            raise RuntimeError("nothing will ever happen again: everything waits for something else")
        when = self._timers[0][0]
        self._now = max(self._now, when)
        while self._timers and self._timers[0][0] <= when:
            _, _, timer, process = heappop(self._timers)
            if not timer.cancelled():
                self._put(timer, process)


def here() -> Process:
    """Return the process that is running."""
    return PROCESS.get()
