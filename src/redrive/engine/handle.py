"""A handle on a run: look at it, wait for it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar, cast

from redrive.clock import Clock
from redrive.engine.background_loop import BackgroundLoop, Facade, waiting
from redrive.engine.definition import Definitions
from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.history import History, history_of
from redrive.engine.payload import Read
from redrive.engine.signals import wait_for
from redrive.errors import RunFailedError, StoreUnavailableError
from redrive.model.caller import APPLICATION
from redrive.model.dead_letter import DeadLetter
from redrive.model.event import ReplayEnded, RunFinished
from redrive.model.replay import ReplayState
from redrive.model.run import Cancellation, Run, RunState
from redrive.policy.codec import decode
from redrive.store.runs import Runs
from redrive.store.store import Store
from redrive.words.number import plural

R_co = TypeVar("R_co", covariant=True)

FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 1.0
_UNFINISHED = (RunState.PENDING, RunState.RUNNING)


class Waiters:
    """Who waits for runs in this process; told by the worker of this process, if there is one."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self.help: Callable[[], Awaitable[bool]] | None = None
        """In tests: does some of the work instead of waiting; False when nothing was left to do."""

    def event(self, run_id: str) -> asyncio.Event:
        return self._events.setdefault(run_id, asyncio.Event())

    def forget(self, run_id: str) -> None:
        self._events.pop(run_id, None)

    def finished(self, run_id: str, state: str) -> None:
        event = self._events.get(run_id)
        if event is not None:
            event.set()


class RunHandle(Generic[R_co]):
    """`await run.result()` returns what the last step returned, or raises RunFailedError."""

    def __init__(
        self,
        run_id: str,
        org: str,
        store: Store,
        definitions: Definitions,
        clock: Clock,
        waiters: Waiters,
        event_bus: EventBus,
        opened: Callable[[], Awaitable[None]],
        encryption: Encryption = NO_ENCRYPTION,
        read: Read | None = None,
    ) -> None:
        self.id = run_id
        self.org = org
        self.existed = False
        """Was it there before it was started, under the same idempotency key?"""
        self._store = store
        self._definitions = definitions
        self._clock = clock
        self._waiters = waiters
        self._event_bus = event_bus
        self._opened = opened
        self._encryption = encryption
        self._read = read

    def __repr__(self) -> str:
        return f"<RunHandle {self.id}>"

    def __await__(self) -> Generator[Any, None, R_co]:
        """`await handle` is `await handle.result()`."""
        return self.result().__await__()

    async def get(self) -> Run:
        """The run as it stands now."""
        return await (await self._runs()).get(self.id, self.org)

    async def state(self) -> RunState:
        return RunState((await (await self._runs()).outcome(self.id, self.org))[0])

    async def wait(self, timeout: float | None = None) -> RunState:
        """Wait until the run has ended, in whatever way. TimeoutError when that takes too long."""
        state, _ = await self._ended(timeout)
        return state

    async def result(self, timeout: float | None = None) -> R_co:
        """What the last step returned, in the type that its task is annotated with."""
        state, result = await self._ended(timeout)
        if state is RunState.SUCCESS:
            value = None if result is None else decode(self._encryption.decrypt(result))
            return cast("R_co", value if self._read is None else self._read(value))
        error = RunFailedError(await self._story(state), run_id=self.id, state=state)
        letter = await self.dead_letter()
        if letter is not None and letter.stack:
            error.add_note(letter.stack)
        raise error

    async def cancel(self, *, by: str = APPLICATION, reason: str = "") -> Cancellation:
        """End it before its time. The audit keeps `reason` as it is: no secrets in it."""
        cancelled = await (await self._runs()).cancel(self.id, self.org, by, reason)
        for replay in cancelled.replays:
            self._event_bus.emit(ReplayEnded(replay.org, replay.letter_id, self.id, ReplayState.CANCELLED))
        if cancelled.answer is Cancellation.CANCELLED:
            self._waiters.finished(self.id, RunState.CANCELLED)
            self._event_bus.emit(_finished(await self.get()))
        return cancelled.answer

    async def history(self) -> History:
        """Every step, every attempt and every event, in the order in which they happened."""
        return await history_of(await self.get(), self._store, self._definitions, self._encryption)

    async def dead_letter(self) -> DeadLetter | None:
        """What was kept of its failure."""
        letters = await (await self._runs()).dead_letters(self.id, self.org)
        return letters[-1] if letters else None

    async def _runs(self) -> Runs:
        await self._opened()
        return self._store.runs

    async def _ended(self, timeout: float | None) -> tuple[RunState, str | None]:
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        told = self._waiters.event(self.id)
        pause = FIRST_POLL_SECONDS
        try:
            while True:
                state, result = await self._outcome()
                if state not in _UNFINISHED:
                    return RunState(state), result
                if self._waiters.help is not None:
                    if deadline is not None and self._clock.monotonic() >= deadline:
                        raise TimeoutError(f"run {self.id} is still {state} after {timeout:g} s")
                    if await self._waiters.help() or await self.state() not in _UNFINISHED:
                        continue
                    raise TimeoutError(f"run {self.id} is {state}, and nothing is left to be executed")
                left = MAX_POLL_SECONDS if deadline is None else deadline - self._clock.monotonic()
                if left <= 0.0:
                    raise TimeoutError(f"run {self.id} is still {state} after {timeout:g} s")
                told.clear()
                await wait_for(told, min(pause, left), self._clock)
                pause = min(pause * 1.5, MAX_POLL_SECONDS)
        finally:
            self._waiters.forget(self.id)

    async def _outcome(self) -> tuple[str, str | None]:
        runs = await self._runs()
        try:
            return await runs.outcome(self.id, self.org)
        except StoreUnavailableError:  # of a connection that died while it rested; then all are made anew
            return await runs.outcome(self.id, self.org)

    async def _story(self, state: RunState) -> str:
        letter = await self.dead_letter()
        if letter is None:
            return f"run {self.id} ended as {state}"
        attempts = plural(letter.attempts, "attempt")
        return (
            f"run {self.id} ended as {state}: step {letter.step!r} failed after {attempts} "
            f"with {letter.error_type}: {letter.message} ({letter.explanation}); dead letter {letter.id}"
        )


class SyncRunHandle(Facade, Generic[R_co]):
    """A run, for programs without an event loop: the methods of `RunHandle`, which wait."""

    def __init__(self, handle: RunHandle[R_co], loop: BackgroundLoop) -> None:
        super().__init__(handle, loop)
        self._handle = handle
        self.id = handle.id
        self.org = handle.org
        self.existed = handle.existed

    def __repr__(self) -> str:
        return f"<SyncRunHandle {self.id}>"

    def result(self, timeout: float | None = None) -> R_co:
        """What the last step returned, in the type that its task is annotated with."""
        return self._loop.wait_for(self._handle.result(timeout))

    get = waiting(RunHandle.get)
    state = waiting(RunHandle.state)
    wait = waiting(RunHandle.wait)
    cancel = waiting(RunHandle.cancel)
    history = waiting(RunHandle.history)
    dead_letter = waiting(RunHandle.dead_letter)


def _finished(run: Run) -> RunFinished:
    seconds = max(0.0, (run.ended_at or run.submitted_at) - run.submitted_at)
    return RunFinished(
        org=run.org,
        run_id=run.id,
        workflow=run.workflow,
        queue=run.queue,
        correlation_id=run.correlation_id,
        state=run.state,
        seconds=seconds,
    )
