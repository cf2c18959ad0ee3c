"""Shrinking: the smallest script that still breaks the same promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.script import RunPlan, Script, StepPlan
from tests.simulation.simulate import play

MAX_PLAYS = 600


def shrunk(script: Script, invariants: set[str]) -> Script:
    """Parts are left out, and what is left is made plain, as long as one of the invariants stays violated."""
    return _Shrinker(lambda smaller: bool(play(smaller).invariants & invariants)).shrunk(script)


class _Shrinker:
    def __init__(self, still_broken: Callable[[Script], bool]) -> None:
        self._still_broken = still_broken
        self._plays = 0

    def shrunk(self, script: Script) -> Script:
        before = None
        while script != before and self._plays < MAX_PLAYS:
            before = script
            for name in ("faults", "chores", "runs", "workers"):
                script = self._with_fewer(script, name)
            script = self._plainer(script)
            script = self._without_sweeps(script)
        return _without_unused(script)

    def _limits(self, script: Script) -> bool:
        self._plays += 1
        return self._plays <= MAX_PLAYS and self._still_broken(script)

    def _with_fewer(self, script: Script, name: str) -> Script:
        """Large pieces first."""
        size = len(getattr(script, name))
        while size >= 1:
            start = 0
            while start < len(parts := getattr(script, name)):
                smaller = replace(script, **{name: parts[:start] + parts[start + size :]})
                if _is_playable(smaller) and self._limits(smaller):
                    script = smaller
                else:
                    start += size
            size //= 2
        return script

    def _without_sweeps(self, script: Script) -> Script:
        smaller = replace(script, sweeps=0)
        return smaller if script.sweeps and self._limits(smaller) else script

    def _plainer(self, script: Script) -> Script:
        for number, plan in enumerate(script.runs):
            for simpler in _simpler(plan):
                runs = (*script.runs[:number], simpler, *script.runs[number + 1 :])
                if simpler != script.runs[number] and self._limits(smaller := replace(script, runs=runs)):
                    script = smaller
        return script


def _is_playable(script: Script) -> bool:
    names = {worker.name for worker in script.workers}
    queues = {queue for worker in script.workers for queue in worker.queues}
    needed = {script.task(name).queue for run in script.runs for name in script.task_names(run.workflow)}
    targets = {fault.target for fault in script.faults if fault.target.startswith("w")}
    return bool(names) and targets <= names and needed <= queues


def _simpler(plan: RunPlan) -> Iterator[RunPlan]:
    yield replace(plan, repeats=(), stranger=False)
    yield replace(plan, cancel_at=None)
    yield replace(plan, order_key=None)
    yield replace(plan, at=0.0, delay=0.0, priority=0)
    for index, step in enumerate(plan.steps):
        for plain in (StepPlan(step.outcomes, (), step.lasting), StepPlan((), step.troubles)):
            yield replace(plan, steps=_put(plan.steps, index, plain))


def _put(parts: Sequence[Any], index: int, part: Any) -> tuple[Any, ...]:
    return (*parts[:index], part, *parts[index + 1 :])


def _without_unused(script: Script) -> Script:
    """For reading only; nothing that happens depends on what is left out here."""
    used = {name for run in script.runs for name in script.task_names(run.workflow)}
    workflows = {run.workflow for run in script.runs}
    return replace(
        script,
        tasks=tuple(task for task in script.tasks if task.name in used),
        workflows=tuple(each for each in script.workflows if each[0] in workflows),
    )
