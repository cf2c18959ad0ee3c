"""An operator: does the chores of the script, and repeats a chore whose answer was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.simulation.generate import ORGS
from tests.simulation.loop import Process
from tests.simulation.operator_actions import ACTIONS, BY, UNATTENDED
from tests.simulation.script import Chore, ChoreKind, Script
from tests.simulation.stage import Stage

from redrive.app import Redrive
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.errors import DriftError, ReplayRefusedError, StoreError, TransitionError
from redrive.failures.service import Failures

EVERYBODY = (*ORGS, DEFAULT_ORG)
PAUSE = 1.0
LOOKS, BETWEEN_LOOKS = 4, 0.7
"""How often the operator looks for a subject, and the seconds between two looks."""

MAX_TRIES = 8
"""After this many failed tries, the operator gives a chore up."""

_REFUSALS = (DriftError, ReplayRefusedError, TransitionError)
_LETTERS = {
    ChoreKind.REOPEN: "is:resolved,ignored,archived",
    ChoreKind.CANCEL_RUN: "is:replaying",
}
_STATES = {
    ChoreKind.START: ("PLANNED",),
    ChoreKind.PAUSE: ("RUNNING",),
    ChoreKind.RESUME: ("PAUSED", "STOPPED"),
    ChoreKind.CANCEL: ("PLANNED", "RUNNING", "PAUSED", "STOPPED"),
}


class Operator:
    """The operator. `finished`: every chore was done, rejected or given up, and no queue stays paused."""

    def __init__(self, stage: Stage, script: Script) -> None:
        self._stage = stage
        self._script = script
        self._done: set[int] = set()
        self._chosen: dict[int, tuple[str, Any]] = {}
        self.finished = not script.chores

    async def live(self, process: Process, app: Redrive) -> None:
        """Live until the process crashes; the next process does the remaining chores."""
        left = [number for number in range(len(self._script.chores)) if number not in self._done]
        await asyncio.gather(*(self._care_for(process, app, number) for number in left))
        await self._tidy(app)
        self.finished = True

    async def _care_for(self, process: Process, app: Redrive, number: int) -> None:
        chore = self._script.chores[number]
        await asyncio.sleep(max(0.0, chore.at - self._stage.loop.time()))
        for _ in range(MAX_TRIES):
            try:
                told = await self._do(app, number, chore)
            except _REFUSALS as refusal:
                told = f"refused: {refusal}"
                self._stage.occurrences[f"refused: {chore.kind}"] += 1
                self._stage.occurrences["replay refused"] += isinstance(refusal, ReplayRefusedError)
            except StoreError:
                self._stage.occurrences["chore done again"] += 1
                await asyncio.sleep(PAUSE)
                continue
            self._stage.note(process, f"{chore.kind}: {told}")
            break
        self._done.add(number)

    async def _do(self, app: Redrive, number: int, chore: Chore) -> str:
        for _ in range(LOOKS):
            if number in self._chosen or await self._chooses(app, number, chore):
                break
            await asyncio.sleep(BETWEEN_LOOKS)
        else:
            return "nothing to do"
        org, subject = self._chosen[number]
        self._stage.occurrences[f"chore: {chore.kind}"] += 1
        await ACTIONS[chore.kind](app, app.failures(org=org, by=BY), subject, chore)
        return f"{_named(subject)} of {org}"

    async def _chooses(self, app: Redrive, number: int, chore: Chore) -> bool:
        """Choose the subject of a chore once: a repeated chore must have the same subject."""
        for org in (chore.org, *(each for each in EVERYBODY if each != chore.org)):
            subject = await _choose(app.failures(org=org, by=BY), chore)
            if subject is not None:
                self._chosen[number] = org, subject
                return True
        return False

    async def _tidy(self, app: Redrive) -> None:
        """Resume all queues: paused work would wait forever."""
        for org in EVERYBODY:
            await self._until_done(lambda org=org: self._resume_all(app, org))  # type: ignore[misc]

    async def _resume_all(self, app: Redrive, org: str) -> None:
        failures = app.failures(org=org, by=BY)
        for operation in (await failures.plans.list()).operations:
            if operation.state == "PAUSED":
                await failures.plans.resume(operation.id)

    async def _until_done(self, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await action()
            except StoreError:
                await asyncio.sleep(PAUSE)


async def sweep(app: Redrive) -> None:
    """Replay every dead letter, until it works."""
    for org in EVERYBODY:
        failures = app.failures(org=org, by=BY)
        if (await failures.count(UNATTENDED)).number:
            plan = await failures.plans.create(
                query=UNATTENDED, canary=0, failure_rate=1.0, same_failures=None, stop_on_breaker=False
            )
            await failures.plans.start(plan.operation_id, accept_drift=True)


async def _choose(failures: Failures, chore: Chore) -> Any:
    if chore.kind in _STATES:
        found = (await failures.plans.list()).operations
        fit = [each.id for each in found if chore.rash or each.state in _STATES[chore.kind]]
        return _picked(fit, chore.pick)
    if chore.kind.value.endswith(("_group", "_group_with_letters")):
        groups = (await failures.groups.list(size=20)).lines
        return _picked([each.group.fingerprint for each in groups], chore.pick)
    if chore.kind is ChoreKind.PLAN:
        return "" if (await failures.count(UNATTENDED)).number else None
    query = "" if chore.rash else _LETTERS.get(chore.kind, UNATTENDED)
    lines = (await failures.list(query, size=50, order="oldest")).lines
    letter = _picked(lines, chore.pick)
    if chore.kind is not ChoreKind.LINK or letter is None:
        return letter
    others = [line for line in lines if line.id != letter.id]
    return (letter, _picked(others, chore.pick)) if others else None


def _picked(several: Sequence[Any], pick: float) -> Any:
    return several[min(int(pick * len(several)), len(several) - 1)] if several else None


def _named(subject: Any) -> str:
    several = subject if isinstance(subject, tuple) and not hasattr(subject, "_fields") else (subject,)
    return " → ".join(str(getattr(each, "id", each))[-4:] for each in several)
