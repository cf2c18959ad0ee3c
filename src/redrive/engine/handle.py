"""Run handles: view a run, wait for it, cancel it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from redrive.clock import Clock
from redrive.duration import Seconds, to_seconds
from redrive.engine.background_loop import BackgroundLoop, Facade, waiting
from redrive.engine.definition import Definitions
from redrive.engine.encryption import Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.history import History, history_of
from redrive.engine.payload import Read
from redrive.engine.run_view import RedactedView, RunView
from redrive.engine.signals import wait_for
from redrive.errors import RunFailedError, StoreUnavailableError
from redrive.model.caller import APPLICATION
from redrive.model.dead_letter import LIVE, DeadLetter
from redrive.model.event import ReplayEnded, RunFinished
from redrive.model.replay import ReplayState
from redrive.model.run import Cancellation, Run, RunState
from redrive.policy.codec import decode_stored
from redrive.renamed import NamesRenamed
from redrive.store.store import Store
from redrive.words.decision import why
from redrive.words.number import plural
from redrive.words.state import status

R_co = TypeVar("R_co", covariant=True)

FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 1.0
_UNFINISHED = (RunState.PENDING, RunState.RUNNING)


class Waiters:
    """The callers in this process that wait for runs. A worker in the same process notifies them."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self.help: Callable[[], Awaitable[bool]] | None = None
        """In tests: executes some work instead of waiting; returns False if nothing is left to do."""

    def event(self, run_id: str) -> asyncio.Event:
        return self._events.setdefault(run_id, asyncio.Event())

    def forget(self, run_id: str) -> None:
        self._events.pop(run_id, None)

    def finished(self, run_id: str, state: str) -> None:
        event = self._events.get(run_id)
        if event is not None:
            event.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The shared parts of an organization's run handles. `replay(run_id, by, reason)` replays a run."""

    org: str
    store: Store
    definitions: Definitions
    clock: Clock
    waiters: Waiters
    event_bus: EventBus
    encryption: Encryption
    redacted_view: RedactedView
    replay: Callable[[str, str, str], Awaitable[None]]


class RunHandle(NamesRenamed, Generic[R_co]):
    """A handle for a run: `await run.result()` returns the result of the last step, or raises RunFailedError.

    id       the id of the run
    existed  whether a run with the same idempotency key already existed and no new one was started
    """

    __slots__ = ("_parts", "_read", "existed", "id")

    def __init__(
        self, run_id: str, parts: RunParts, read: Read = decode_stored, *, existed: bool = False
    ) -> None:
        self.id = run_id
        self.existed = existed
        self._parts = parts
        self._read = read

    @property
    def org(self) -> str:
        return self._parts.org

    def __repr__(self) -> str:
        return f"<RunHandle {self.id}>"

    def __await__(self) -> Generator[Any, None, R_co]:
        """`await handle` is the same as `await handle.result()`."""
        return self.result().__await__()

    async def view(self) -> RunView:
        """The current state of the run, with its payload, result and last error, redacted."""
        parts, run = self._parts, await self._row()
        definition = await parts.definitions.find(run.definition)
        attempts = await parts.store.runs.attempts(run.id, run.org)
        letters = await parts.store.dead_letters.of_run(run.id, run.org)
        origin = await parts.store.runs.origin(run.id, run.org)
        order = await parts.store.runs.order(run.id, run.org)
        return parts.redacted_view.run(run, definition, attempts, letters, origin, order)

    async def state(self) -> RunState:
        return RunState((await self._parts.store.runs.outcome(self.id, self.org))[0])

    async def wait(self, timeout: Seconds | None = None) -> RunState:
        """Wait until the run has finished, successfully or not. Raise TimeoutError after `timeout`."""
        state, _ = await self._wait_until_finished(timeout)
        return state

    async def result(self, timeout: Seconds | None = None) -> R_co:
        """Wait for the run and return the result of the last step, in its task's annotated return type."""
        state, result = await self._wait_until_finished(timeout)
        if state is RunState.SUCCESS:
            text = "null" if result is None else self._parts.encryption.decrypt(result)
            return cast("R_co", self._read(text))
        error = RunFailedError(await self._failure_message(state), run_id=self.id, state=state)
        letter = await self.dead_letter()
        if letter is not None and letter.stack:
            error.add_note(letter.stack)
        raise error

    async def cancel(self, *, by: str = APPLICATION, reason: str = "") -> Cancellation:
        """Cancel the run. The audit log records `by` and the redacted reason."""
        reason = self._parts.redacted_view.clean_reason(reason)
        cancelled = await self._parts.store.runs.cancel(self.id, self.org, by, reason)
        for replay in cancelled.replays:
            ended = ReplayEnded(replay.org, replay.letter_id, self.id, ReplayState.CANCELLED)
            self._parts.event_bus.emit(ended)
        if cancelled.answer is Cancellation.CANCELLED:
            self._parts.waiters.finished(self.id, RunState.CANCELLED)
            self._parts.event_bus.emit(_finished_event(await self._row()))
        return cancelled.answer

    async def replay(self, *, by: str = APPLICATION, reason: str = "") -> None:
        """Replay the dead letter of a failed run: requeue the run where it stopped, with a new retry budget.

        `app.failures().replay(letter_id, ...)` has more options: a single step, another payload or policy.
        """
        await self._parts.replay(self.id, by, reason)

    async def history(self) -> History:
        """All steps, attempts and events of the run, in chronological order."""
        parts = self._parts
        return await history_of(await self._row(), parts.store, parts.definitions, parts.encryption)

    async def dead_letter(self) -> DeadLetter | None:
        """The live dead letter of the step where the run stopped, else the newest one, if there is one."""
        letters = await self._parts.store.dead_letters.of_run(self.id, self.org)
        live = [letter for letter in letters if letter.state in LIVE]
        if live:
            return min(live, key=lambda letter: letter.step_index)
        return letters[-1] if letters else None

    async def _row(self) -> Run:
        return await self._parts.store.runs.get(self.id, self.org)

    async def _wait_until_finished(self, timeout: Seconds | None) -> tuple[RunState, str | None]:
        clock, waiters = self._parts.clock, self._parts.waiters
        seconds = math.inf if timeout is None else to_seconds(timeout)
        deadline = clock.monotonic() + seconds
        finished = waiters.event(self.id)
        pause = FIRST_POLL_SECONDS
        try:
            while True:
                state, result = await self._outcome()
                if state not in _UNFINISHED:
                    return RunState(state), result
                if waiters.help is not None:
                    if clock.monotonic() >= deadline:
                        raise TimeoutError(f"run {self.id} is still {status(state)} after {seconds:g} s")
                    if await waiters.help() or await self.state() not in _UNFINISHED:
                        continue
                    raise TimeoutError(f"run {self.id} is {status(state)}, and no work is left to execute")
                left = deadline - clock.monotonic()
                if left <= 0.0:
                    raise TimeoutError(f"run {self.id} is still {status(state)} after {seconds:g} s")
                finished.clear()
                await wait_for(finished, min(pause, left), clock)
                pause = min(pause * 1.5, MAX_POLL_SECONDS)
        finally:
            waiters.forget(self.id)

    async def _outcome(self) -> tuple[str, str | None]:
        runs = self._parts.store.runs
        try:
            return await runs.outcome(self.id, self.org)
        except StoreUnavailableError:  # the connection died while idle; the pool now opens new ones
            return await runs.outcome(self.id, self.org)

    async def _failure_message(self, state: RunState) -> str:
        letter = await self.dead_letter()
        if letter is None:
            return f"run {self.id} ended with the status {status(state)!r}"
        attempts = plural(letter.attempts, "attempt")
        return (
            f"run {self.id} ended with the status {status(state)!r}: step {letter.step!r} failed after "
            f"{attempts} with {letter.error_type}: {letter.message} ({why(letter.decision)}); "
            f"dead letter {letter.id}"
        )


class SyncRunHandle(Facade, Generic[R_co]):
    """The blocking version of `RunHandle`, for programs without an event loop."""

    def __init__(self, handle: RunHandle[R_co], loop: BackgroundLoop) -> None:
        super().__init__(handle, loop)
        self._handle = handle
        self.id = handle.id
        self.org = handle.org
        self.existed = handle.existed

    def __repr__(self) -> str:
        return f"<SyncRunHandle {self.id}>"

    def result(self, timeout: Seconds | None = None) -> R_co:
        """Wait for the run and return the result of the last step, in its task's annotated return type."""
        return self._loop.wait_for(self._handle.result(timeout))

    view = waiting(RunHandle.view)
    state = waiting(RunHandle.state)
    wait = waiting(RunHandle.wait)
    cancel = waiting(RunHandle.cancel)
    replay = waiting(RunHandle.replay)
    history = waiting(RunHandle.history)
    dead_letter = waiting(RunHandle.dead_letter)


def _finished_event(run: Run) -> RunFinished:
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
