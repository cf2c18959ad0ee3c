"""External systems: how steps behave when they are called, and a receiver that recognizes repetitions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tests.simulation.loop import Process, here
from tests.simulation.script import Outcome, Script, StepPlan, TaskPlan, Trouble

from redrive.engine.context import Context
from redrive.errors import FinalError, RateLimitedError

SLEEP = 0.7
LONG = 11.0
"""Seconds; longer than any lease, for a step whose lost lease must not lead to a second execution."""

HINT = 1.5
RATE_LIMITED_TIMES = 2
DEFERRED_FOR = 2.0


class Observer(Protocol):
    def begun(self, process: Process, context: Context, task: TaskPlan) -> None: ...

    def ended(self, process: Process, context: Context, task: TaskPlan) -> None: ...


class ExternalSystems:
    """The code of the steps, and the receiver that they call.

    keys      the idempotency keys that a step has sent; there must be one
    accepted  how often the receiver has accepted a key: once, for any number of requests
    asked     how often steps have sent each key
    late      runs with a step that timed out although the script did not plan it
    stubborn  the processes and runs of steps that continue although they were cancelled
    """

    def __init__(self, script: Script, observer: Observer, kill: Callable[[Process], None]) -> None:
        self._script = script
        self._observer = observer
        self._kill = kill
        self._plans = {run.number: run for run in script.runs}
        self._calls: Counter[tuple[int, int]] = Counter()
        self._answers: Counter[tuple[int, int, int]] = Counter()
        self._limited: Counter[tuple[int, int, int, int]] = Counter()
        self.down: Counter[str] = Counter()
        self.keys: dict[tuple[int, int], set[str]] = {}
        self.accepted: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._hanging: set[tuple[int, int]] = set()
        self.late: set[int] = set()
        self.stubborn: set[tuple[Process, str]] = set()

    async def perform(self, task: TaskPlan, payload: Any, context: Context) -> Any:
        process = here()
        number, index = payload["run"], context.step_index
        plan = self._plans[number].steps[index]
        self.keys.setdefault((number, index), set()).add(context.idempotency_key)
        self._observer.begun(process, context, task)
        self._hanging.discard((number, index))
        try:
            await self._cause(plan, number, task, process, context)
            await self._come_to(plan, number, task, context)
        finally:
            self.stubborn.discard((process, context.run_id))
            self._observer.ended(process, context, task)
            if context.remaining() <= 0.0 and (number, index) not in self._hanging:
                self.late.add(number)
        return {"run": number, "step": index}

    def _accept(self, context: Context) -> None:
        self.asked[context.idempotency_key] += 1
        self.accepted[context.idempotency_key] = 1

    async def _cause(
        self, plan: StepPlan, number: int, task: TaskPlan, process: Process, context: Context
    ) -> None:
        where = number, context.step_index
        call = self._calls[where]
        self._calls[where] += 1
        trouble = plan.troubles[call] if call < len(plan.troubles) else Trouble.NONE
        if trouble is Trouble.SLEEP:
            await asyncio.sleep(SLEEP)
        elif trouble is Trouble.LONG:
            await asyncio.sleep(min(LONG, task.timeout * 0.6))
        elif trouble is Trouble.STUBBORN:
            await self._sleep_stubbornly(min(LONG, task.timeout * 0.6), process, context)
        elif trouble is Trouble.PROGRESS:
            context.progress(0.5, "half of it")
            await asyncio.sleep(SLEEP)
        elif trouble is Trouble.DEFER:
            context.defer(DEFERRED_FOR)
        elif trouble in (Trouble.KILL, Trouble.KILL_AFTER_EFFECT):
            if trouble is Trouble.KILL_AFTER_EFFECT:
                self._accept(context)
            await self._die(process)

    async def _die(self, process: Process) -> None:
        self._kill(process)
        await asyncio.get_running_loop().create_future()

    async def _come_to(self, plan: StepPlan, number: int, task: TaskPlan, context: Context) -> None:
        if task.breaker is not None and self.down[task.breaker]:
            raise ConnectionError(f"{task.breaker} is down")
        outcome = self._outcome(plan, number, task, context)
        if outcome in (Outcome.SUCCEED, Outcome.ANSWER_LOST):
            self._accept(context)
        if outcome in (Outcome.ANSWER_LOST, Outcome.NETWORK):
            raise ConnectionError("the connection was lost")
        if outcome is Outcome.FINAL:
            raise FinalError("never")
        if outcome is Outcome.UNKNOWN:
            raise KeyError("what?")
        if outcome is Outcome.RATE_LIMITED:
            raise RateLimitedError("slowly", retry_after=HINT)
        if outcome is Outcome.HANG:
            self._hanging.add((number, context.step_index))
            await asyncio.sleep(task.timeout + 10.0)

    def _outcome(self, plan: StepPlan, number: int, task: TaskPlan, context: Context) -> Outcome:
        """Choose by charged failures, so that interruptions make no difference.

        Behind a breaker, choose by the answers so far: failed probes are not charged, and would fail forever.
        """
        replay = context._claim.replays
        if replay > plan.lasting:
            return Outcome.SUCCEED
        where = number, context.step_index, replay
        turn = context.failures if task.breaker is None else self._answers[where]
        outcome = plan.outcomes[turn] if turn < len(plan.outcomes) else Outcome.SUCCEED
        if outcome is Outcome.RATE_LIMITED:
            self._limited[*where, turn] += 1
            if self._limited[*where, turn] > RATE_LIMITED_TIMES:
                return Outcome.SUCCEED
        else:
            self._answers[where] += 1
        return outcome

    async def _sleep_stubbornly(self, seconds: float, process: Process, context: Context) -> None:
        """Sleep; if cancelled, sleep on, and continue as if nothing had happened."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.stubborn.add((process, context.run_id))
            await asyncio.sleep(SLEEP)
