"""A process that handles dead letters, and may die at any moment.

It replays them one at a time and in bulk, pauses, resumes and cancels its bulk replays, and closes and
reopens some letters. Redrive rejects changes that conflict with others, which is fine here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from tests.crash.sink import Line
from tests.crash.work import ORGS

from redrive.app import Redrive
from redrive.errors import (
    DriftError,
    NotFoundError,
    ReplayRefusedError,
    StoreUnavailableError,
    TransitionError,
)
from redrive.failures.service import Failures
from redrive.model.replay import Mode, OperationState

MAX_IN_BULK = 30
REFUSED = (DriftError, NotFoundError, ReplayRefusedError, TransitionError)


class Replayer:
    def __init__(self, app: Redrive, line: Line, random: Random) -> None:
        self._app = app
        self._line = line
        self._random = random

    async def run(self) -> None:
        """Act until killed."""
        while True:
            try:
                failures = self._app.failures(org=self._random.choice(ORGS), by="ana")
                with suppress(*REFUSED):
                    await self._act(failures)
            except StoreUnavailableError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(self._random.uniform(0.0, 0.05))

    async def _act(self, failures: Failures) -> None:
        page = await failures.list("is:open,exhausted", size=2 * MAX_IN_BULK)
        letters = [line.id for line in page.lines]
        if not letters:
            return
        [act] = self._random.choices((self._single, self._bulk, self._steer, self._close), (4, 4, 1, 1))
        await act(failures, letters)

    async def _single(self, failures: Failures, letters: Sequence[str]) -> None:
        chosen = self._random.choice(letters)
        step = self._random.choice((None, None, 0))
        mode = Mode.FROM_STEP if step == 0 else self._random.choice(list(Mode))
        replay = await failures.replay(chosen, mode=mode, from_step=step)
        self._line.tell("replayed", id=replay.id)

    async def _bulk(self, failures: Failures, letters: Sequence[str]) -> None:
        chosen = self._random.sample(letters, min(len(letters), self._random.randint(1, MAX_IN_BULK)))
        canary = self._random.randint(0, 5)
        plan = await failures.plans.create(ids=chosen, canary=canary, failure_rate=1.0, same_failures=None)
        await failures.plans.start(plan.operation_id, accept_drift=True)
        self._line.tell("started", id=plan.operation_id)

    async def _steer(self, failures: Failures, letters: Sequence[str]) -> None:
        operations = failures.plans
        for known in (await operations.list(size=10)).operations:
            if known.state == OperationState.PAUSED:
                await operations.resume(known.id, "go on")
            elif known.state == OperationState.PLANNED:
                await operations.cancel(known.id, "nobody knows what it was for")
            elif known.state == OperationState.RUNNING and self._random.random() < 0.3:
                await self._random.choice((operations.pause, operations.cancel))(known.id, "wait")

    async def _close(self, failures: Failures, letters: Sequence[str]) -> None:
        chosen = self._random.choice(letters)
        await failures.resolve(chosen, "by hand")
        if self._random.random() < 0.5:
            await failures.reopen(chosen, "not quite")
