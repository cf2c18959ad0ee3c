"""How a run must end, whatever happens to its workers: a model of the promises in a few lines."""

from __future__ import annotations

from tests.simulation.outside import RATE_LIMITED_TIMES
from tests.simulation.script import Outcome, RunPlan, Script, StepPlan, TaskPlan, Trouble

Predicted = tuple[str, int, int]
"""State, index of the last step, charged failures of it."""

_CHARGED = (Outcome.NETWORK, Outcome.ANSWER_LOST, Outcome.HANG)
_STATES = {"bury": "DLQ_PENDING", "block": "DLQ_PENDING", "fail": "FAILED"}


def predicted(script: Script, plan: RunPlan) -> Predicted | None:
    """None where it depends on when things happen."""
    if plan.cancel_at is not None:
        return None
    tasks = [script.task(name) for name in script.task_names(plan.workflow)]
    for index, (task, step) in enumerate(zip(tasks, plan.steps, strict=True)):
        if not _is_certain(task, step):
            return None
        failures = _failures(task, step)
        if failures is not None:
            return _STATES[task.ending], index, failures
    return "SUCCESS", len(tasks) - 1, 0


def _is_certain(task: TaskPlan, step: StepPlan) -> bool:
    if task.breaker is not None or task.unsafe:
        return False
    if Outcome.RATE_LIMITED in step.outcomes and task.rate_limit_waits < RATE_LIMITED_TIMES:
        return False
    return not {Trouble.KILL, Trouble.KILL_AFTER_EFFECT} & set(step.troubles)


def _failures(task: TaskPlan, step: StepPlan) -> int | None:
    """The charged failures with which a step ends for good; None when it succeeds."""
    for failures, outcome in enumerate(step.outcomes):
        if outcome in (Outcome.FINAL, Outcome.UNKNOWN):
            return failures + 1
        if outcome not in _CHARGED:
            return None
        if failures + 1 >= task.max_attempts:
            return failures + 1
    return None
