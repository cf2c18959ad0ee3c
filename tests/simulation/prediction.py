"""How a run must end, whatever happens to its workers: a model of the promises in a few lines."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.external_systems import RATE_LIMITED_TIMES
from tests.simulation.generate import PROCEEDS
from tests.simulation.script import Outcome, RunPlan, Script, StepPlan, TaskPlan, Trouble


class Predicted(NamedTuple):
    """`failures` are the charged ones of the last step, since its last replay."""

    state: str
    step_index: int
    failures: int
    replays: int = 0


_CHARGED = (Outcome.NETWORK, Outcome.ANSWER_LOST, Outcome.HANG)
_STATES = {"bury": "DLQ_PENDING", "block": "DLQ_PENDING", "fail": "FAILED"}


def predicted(script: Script, plan: RunPlan, *, redriven: bool = True) -> Predicted | None:
    """None where it depends on when things happen; `redriven`: with redrives, and the sweeps at the end."""
    waits = plan.order_key is not None and not plan.order_key.endswith(PROCEEDS)
    if plan.cancel_at is not None or (waits and redriven and script.sweeps):
        return None  # a run that waits for others has its first end after some of the sweeps
    tasks = [script.task(name) for name in script.task_names(plan.workflow)]
    index = replays = redrives = 0
    sweeps = script.sweeps if redriven else 0
    while index < len(tasks):
        task, step = tasks[index], plan.steps[index]
        if not _is_certain(task, step):
            return None
        failures = _failures(task, step, replays)
        if failures is None:
            index, redrives = index + 1, 0
        elif redriven and redrives < task.max_redrives:
            redrives, replays = redrives + 1, replays + 1
        elif sweeps:
            sweeps, replays = sweeps - 1, replays + 1
        else:
            return Predicted(_STATES[task.ending], index, failures, replays)
    return Predicted("SUCCESS", len(tasks) - 1, 0, replays)


def fits(script: Script, plan: RunPlan, ended: Predicted) -> bool:
    """Can a run that was replayed so often have ended so? Where it has ended, the last replay has been."""
    index = ended.step_index
    task, step = script.task(script.task_names(plan.workflow)[index]), plan.steps[index]
    if not _is_certain(task, step) or ended.state == "CANCELLED":
        return True
    failures = _failures(task, step, ended.replays)
    if ended.state in ("SUCCESS", "PARTIAL"):
        return failures is None
    return failures == ended.failures and ended.state == _STATES[task.ending]


def _is_certain(task: TaskPlan, step: StepPlan) -> bool:
    if task.breaker is not None or task.unsafe:
        return False
    if Outcome.RATE_LIMITED in step.outcomes and task.rate_limit_waits < RATE_LIMITED_TIMES:
        return False
    return not {Trouble.KILL, Trouble.KILL_AFTER_EFFECT} & set(step.troubles)


def _failures(task: TaskPlan, step: StepPlan, replays: int) -> int | None:
    """The charged failures with which a step ends for good; None when it succeeds."""
    if replays > step.lasting:
        return None
    for failures, outcome in enumerate(step.outcomes):
        if outcome in (Outcome.FINAL, Outcome.UNKNOWN):
            return failures + 1
        if outcome not in _CHARGED:
            return None
        if failures + 1 >= task.max_attempts:
            return failures + 1
    return None
