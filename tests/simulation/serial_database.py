"""One user at a time: a transaction or a single statement has the database to itself, as on SQLite.

A process that crashes inside leaves at once, and its uncommitted changes are rolled back, as a server does
when a connection breaks. A process that is frozen inside is disconnected after a while, as PostgreSQL does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from tests.simulation.loop import Process, VirtualLoop

IDLE_TIMEOUT = 30.0


class RequestContext:
    """One use of the database. `roll_back` undoes uncommitted changes; `over`: it was ended from outside."""

    __slots__ = ("over", "process", "roll_back")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.roll_back: Callable[[], Awaitable[object]] | None = None
        self.over = False


class SerialDatabase:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._inside: RequestContext | None = None
        self._waiting: deque[tuple[RequestContext, asyncio.Future[None]]] = deque()

    async def enter(self, process: Process) -> RequestContext:
        visit = RequestContext(process)
        if self._inside is None:
            self._inside = visit
            return visit
        future = self._loop.create_future()
        self._waiting.append((visit, future))
        try:
            await future
        except asyncio.CancelledError:
            self._waiting = deque(each for each in self._waiting if each[0] is not visit)
            if self._inside is visit:
                self.leave(visit)
            raise
        return visit

    def leave(self, visit: RequestContext) -> None:
        if self._inside is not visit:
            return
        self._inside = None
        self.let_in()

    def let_in(self) -> None:
        """Let in the first waiting process that can run and has not given up."""
        if self._inside is not None:
            return
        for entry in self._waiting:
            visit, future = entry
            if visit.process.alive and not visit.process.frozen and not future.done():
                self._waiting.remove(entry)
                self._inside = visit
                future.set_result(None)
                return

    def crashed(self, process: Process) -> None:
        self._waiting = deque(each for each in self._waiting if each[0].process is not process)
        self._throw_out(process)

    def has_inside(self, process: Process) -> bool:
        return self._inside is not None and self._inside.process is process

    def frozen(self, process: Process) -> None:
        visit = self._inside
        if visit is not None and visit.process is process:
            self._loop.call_later(
                IDLE_TIMEOUT, self._throw_out_frozen, visit, context=self._loop.director.context
            )

    def _throw_out_frozen(self, visit: RequestContext) -> None:
        if visit.process.frozen and self._inside is visit:
            self._throw_out(visit.process)

    def _throw_out(self, process: Process) -> None:
        visit = self._inside
        if visit is not None and visit.process is process:
            visit.over = True
            self._loop.start(self._loop.director, self._end(visit))

    async def _end(self, visit: RequestContext) -> None:
        if visit.roll_back is not None:
            await visit.roll_back()
        self.leave(visit)
