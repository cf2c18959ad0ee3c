"""Executing the tasks of a stand-alone queue: those that are due in the background, or one at once."""

from __future__ import annotations

import asyncio

from redrive.dead_letter_queue.app import QueueApp
from redrive.engine.handle import RunHandle
from redrive.engine.worker import Worker
from redrive.errors import InvalidValueError, TransitionError
from redrive.failures.redrive_processor import RUNNING, STOPPED
from redrive.model.run import RunState


class Background:
    def __init__(self, app: QueueApp, name: str) -> None:
        self._app = app
        self._name = name
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> str:
        return STOPPED if self._running is None or self._running.done() else RUNNING

    def start(self) -> None:
        _require_loop()
        if self.state == RUNNING:
            raise TransitionError(
                f"the queue {self._name!r} is already running; stop it before it is started again"
            )
        self._worker = self._app.own_worker(redrive=True)
        self._running = asyncio.create_task(self._worker.run())

    async def stop(self) -> None:
        for helper in self._helpers:
            helper.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        worker, running = self._worker, self._running
        self._worker = self._running = None
        if worker is not None and running is not None:
            worker.stop()
            await running

    async def ending(self, run: RunHandle, timeout: float | None) -> RunState:
        """Wait for the end of a replayed run. The run continues after a TimeoutError."""
        helper = self._helper(run)
        state = await run.wait(timeout)
        if helper is not None:
            await helper
        return state

    def _helper(self, run: RunHandle) -> asyncio.Task[None] | None:
        """A worker for this one run, unless the background or a test executes it."""
        if self.state == RUNNING or self._app.waiters.help is not None:
            return None
        helper = asyncio.create_task(self._help(run))
        self._helpers.add(helper)
        helper.add_done_callback(self._helpers.discard)
        return helper

    async def _help(self, run: RunHandle) -> None:
        async with self._app.own_worker(redrive=False):
            await run.wait()


def _require_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise InvalidValueError(
            "no event loop is running here that tasks could be executed on; use dlq.sync.start(), or call "
            "dlq.start() inside of a coroutine"
        ) from None
