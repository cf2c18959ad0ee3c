"""A person at the desk: replays, resolves, reopens, links, plans bulk replays and steers them, and tries again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.simulation.catalogue import OTHERWISE
from tests.simulation.loop import Process
from tests.simulation.script import Chore, ChoreKind, Script
from tests.simulation.stage import Stage

from redrive.app import Redrive
from redrive.engine.desk import Desk
from redrive.errors import (
    DriftError,
    InvalidValueError,
    NotFoundError,
    ReplayRefusedError,
    StoreError,
    TransitionError,
)
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.replay import Mode
from redrive.policy.codec import encode

BY = "ana"
PAUSE = 1.0
MOST_TRIES = 8
"""A chore that the database does not let through is given up after so many; a person does other things, too."""

_REFUSALS = (DriftError, ReplayRefusedError, TransitionError)
_LETTERS = {
    ChoreKind.REOPEN: "is:resolved,ignored,archived",
    ChoreKind.CANCEL_RUN: "is:replaying",
}
_UNATTENDED = "is:open,exhausted"
_STATES = {
    ChoreKind.START: ("PLANNED",),
    ChoreKind.PAUSE: ("RUNNING",),
    ChoreKind.RESUME: ("PAUSED", "STOPPED"),
    ChoreKind.CANCEL: ("PLANNED", "RUNNING", "PAUSED", "STOPPED"),
}


class Clerk:
    """`finished`: every chore was done, refused or given up, and nothing was left paused."""

    def __init__(self, stage: Stage, script: Script) -> None:
        self._stage = stage
        self._script = script
        self._done: set[int] = set()
        self._chosen: dict[int, Any] = {}
        self.finished = not script.chores

    async def live(self, process: Process, app: Redrive) -> None:
        """One life of the process; the next one does what is left."""
        left = [number for number in range(len(self._script.chores)) if number not in self._done]
        await asyncio.gather(*(self._care_for(process, app, number) for number in left))
        await self._tidy(app)
        self.finished = True

    async def _care_for(self, process: Process, app: Redrive, number: int) -> None:
        chore = self._script.chores[number]
        await asyncio.sleep(max(0.0, chore.at - self._stage.loop.time()))
        for _ in range(MOST_TRIES):
            try:
                told = await self._do(app, number, chore)
            except _REFUSALS as refusal:
                told = f"refused: {refusal}"
                self._stage.bitten[f"refused: {chore.kind}"] += 1
            except StoreError:
                self._stage.bitten["chore done again"] += 1
                await asyncio.sleep(PAUSE)
                continue
            self._stage.note(process, f"{chore.kind} in {chore.org}: {told}")
            break
        self._done.add(number)

    async def _do(self, app: Redrive, number: int, chore: Chore) -> str:
        desk = await app.desk(org=chore.org, by=BY)
        subject = await self._subject(desk, number, chore)
        if subject is None:
            return "nothing to do"
        self._stage.bitten[f"chore: {chore.kind}"] += 1
        await _DEEDS[chore.kind](app, desk, subject, chore)
        return _named(subject)

    async def _subject(self, desk: Desk, number: int, chore: Chore) -> Any:
        """What it is done to. Chosen once: who does not know whether it was done, does it to the same."""
        if number not in self._chosen:
            self._chosen[number] = await _choose(desk, chore)
        return self._chosen[number]

    async def _tidy(self, app: Redrive) -> None:
        """Nothing is left paused: it would wait for ever."""
        for org in sorted({chore.org for chore in self._script.chores}):
            await self._until_done(lambda org=org: self._resume_all(app, org))  # type: ignore[misc]

    async def _resume_all(self, app: Redrive, org: str) -> None:
        desk = await app.desk(org=org, by=BY)
        for operation in (await desk.operations.list()).operations:
            if operation.state == "PAUSED":
                await desk.operations.resume(operation.id)

    async def _until_done(self, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await action()
            except StoreError:
                await asyncio.sleep(PAUSE)


async def _choose(desk: Desk, chore: Chore) -> Any:
    if chore.kind in _STATES:
        found = (await desk.operations.list()).operations
        return _picked([each.id for each in found if each.state in _STATES[chore.kind]], chore.pick)
    if chore.kind.value.endswith(("_group", "_group_with_letters")):
        lines = (await desk.groups.list(size=20)).lines
        return _picked([line.group.fingerprint for line in lines], chore.pick)
    if chore.kind is ChoreKind.PLAN:
        return "" if (await desk.dead_letters.count(_UNATTENDED)).number else None
    query = "" if chore.rash else _LETTERS.get(chore.kind, _UNATTENDED)
    lines = (await desk.dead_letters.list(query, size=50, order="oldest")).lines
    letter = _picked(lines, chore.pick)
    if chore.kind is not ChoreKind.LINK or letter is None:
        return letter
    others = [line for line in lines if line.id != letter.id]
    return (letter, _picked(others, chore.pick)) if others else None


def _picked(several: Sequence[Any], pick: float) -> Any:
    return several[int(pick * len(several))] if several else None


def _named(subject: Any) -> str:
    several = subject if isinstance(subject, tuple) and not hasattr(subject, "_fields") else (subject,)
    return " → ".join(str(getattr(each, "id", each))[-4:] for each in several)


# What is done


async def _replay(app: Redrive, desk: Desk, letter: DeadLetterLine, chore: Chore) -> None:
    options: dict[ChoreKind, dict[str, Any]] = {
        ChoreKind.REPLAY_ALONE: {"mode": Mode.STEP_ONLY},
        ChoreKind.REPLAY_BACK: {"from_step": 0},
        ChoreKind.REPLAY_OTHERWISE: {"retry": OTHERWISE},
    }
    await desk.replay(letter.id, reason="simulated", **options.get(chore.kind, {}))


async def _close(app: Redrive, desk: Desk, letter: DeadLetterLine, chore: Chore) -> None:
    letters = desk.dead_letters
    ways = {
        ChoreKind.RESOLVE: letters.resolve,
        ChoreKind.IGNORE: letters.ignore,
        ChoreKind.ARCHIVE: letters.archive,
        ChoreKind.REOPEN: letters.reopen,
    }
    await ways[chore.kind](letter.id, "simulated")


async def _link(app: Redrive, desk: Desk, pair: tuple[DeadLetterLine, DeadLetterLine], chore: Chore) -> None:
    try:
        await desk.dead_letters.link(pair[0].id, pair[1].id)
    except InvalidValueError as error:
        raise TransitionError(str(error)) from error  # each would wait for the other


async def _retry_run(app: Redrive, desk: Desk, letter: DeadLetterLine, chore: Chore) -> None:
    await desk.retry(letter.run_id, reason="simulated")


async def _cancel_run(app: Redrive, desk: Desk, letter: DeadLetterLine, chore: Chore) -> None:
    await app.run(letter.run_id, desk.caller.org).cancel(by=BY)


async def _plan(app: Redrive, desk: Desk, subject: str, chore: Chore) -> None:
    bulk = chore.bulk
    plan = await desk.operations.plan(
        query=_UNATTENDED,
        mode=Mode.STEP_ONLY if bulk.alone else Mode.FROM_STEP,
        canary=bulk.canary,
        rate=bulk.rate,
        failure_rate=bulk.failure_rate,
        stop_on_breaker=bulk.stop_on_breaker,
        exclude_unsafe=bulk.exclude_unsafe,
        reason=encode({"at": chore.at}),
    )
    if not bulk.waits:
        await desk.operations.start(plan.operation_id, accept_drift=True)


async def _start(app: Redrive, desk: Desk, operation_id: str, chore: Chore) -> None:
    await desk.operations.start(operation_id, accept_drift=chore.rash)


async def _steer(app: Redrive, desk: Desk, operation_id: str, chore: Chore) -> None:
    operations = desk.operations
    ways = {
        ChoreKind.PAUSE: operations.pause,
        ChoreKind.RESUME: operations.resume,
        ChoreKind.CANCEL: operations.cancel,
    }
    await ways[chore.kind](operation_id, "simulated")


async def _group(app: Redrive, desk: Desk, fingerprint: str, chore: Chore) -> None:
    groups = desk.groups
    if chore.kind is ChoreKind.ACKNOWLEDGE_GROUP:
        await groups.acknowledge(fingerprint, "simulated")
    elif chore.kind is ChoreKind.IGNORE_GROUP:
        await groups.ignore(fingerprint, "simulated", until=3.0 if chore.rash else None, beyond=1)
    else:
        with_letters = chore.kind is ChoreKind.RESOLVE_GROUP_WITH_LETTERS
        await groups.resolve(fingerprint, "simulated", letters=with_letters)


_DEEDS: dict[ChoreKind, Callable[..., Awaitable[None]]] = {
    **dict.fromkeys(
        (ChoreKind.REPLAY, ChoreKind.REPLAY_ALONE, ChoreKind.REPLAY_BACK, ChoreKind.REPLAY_OTHERWISE), _replay
    ),
    **dict.fromkeys((ChoreKind.RESOLVE, ChoreKind.IGNORE, ChoreKind.ARCHIVE, ChoreKind.REOPEN), _close),
    ChoreKind.LINK: _link,
    ChoreKind.RETRY_RUN: _retry_run,
    ChoreKind.CANCEL_RUN: _cancel_run,
    ChoreKind.PLAN: _plan,
    ChoreKind.START: _start,
    **dict.fromkeys((ChoreKind.PAUSE, ChoreKind.RESUME, ChoreKind.CANCEL), _steer),
    **dict.fromkeys(
        (
            ChoreKind.ACKNOWLEDGE_GROUP,
            ChoreKind.RESOLVE_GROUP,
            ChoreKind.RESOLVE_GROUP_WITH_LETTERS,
            ChoreKind.IGNORE_GROUP,
        ),
        _group,
    ),
}
