"""A client: starts runs, starts them again when it does not know, cancels them, and remembers the answers."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.simulation.generate import PROCEEDS
from tests.simulation.loop import Process
from tests.simulation.script import RunPlan, Script
from tests.simulation.stage import Stage

from redrive.app import Redrive
from redrive.errors import ConflictError, StoreError

STRANGER = 1000
"""Added to the number of a run in a payload that must be refused."""


class Client:
    """
    acknowledged  the ids that a start has answered with, by the number of the run
    refused       numbers of runs that must not exist
    finished      everything was asked for
    """

    def __init__(self, stage: Stage, script: Script) -> None:
        self._stage = stage
        self._script = script
        self.acknowledged: dict[int, set[str]] = {}
        self.refused: set[int] = set()
        self.finished = False

    async def live(self, process: Process, app: Redrive) -> None:
        """One life of a client process. Somebody starts a new one when it crashes."""
        await asyncio.gather(*(self._care_for(process, app, plan) for plan in self._script.runs))
        self.finished = True

    async def _care_for(self, process: Process, app: Redrive, plan: RunPlan) -> None:
        await self._sleep_until(plan.at)
        cancelling = asyncio.create_task(self._cancel(process, app, plan))
        if plan.number not in self.acknowledged:
            await self._start(process, app, plan)
        for seconds in plan.repeats:
            await self._sleep_until(plan.at + seconds)
            await self._start(process, app, plan)
        if plan.stranger:
            await self._start_stranger(app, plan)
        await cancelling

    async def _sleep_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._stage.loop.time()))

    async def _start(self, process: Process, app: Redrive, plan: RunPlan) -> None:
        """With a key until it is acknowledged, as a client does that must not lose anything."""
        while True:
            try:
                run = await app.start(plan.workflow, {"run": plan.number}, **_options(plan))
            except StoreError:
                self._stage.bitten["start given up"] += 1
                if not plan.key:
                    return
                await asyncio.sleep(1.0)
                continue
            self.acknowledged.setdefault(plan.number, set()).add(run.id)
            self._stage.note(process, f"started {plan.number} as {run.id[-4:]}")
            return

    async def _start_stranger(self, app: Redrive, plan: RunPlan) -> None:
        """The key of another run, with another payload."""
        number = STRANGER + plan.number
        try:
            run = await app.start(plan.workflow, {"run": number}, **_options(plan))
        except ConflictError:
            self.refused.add(number)
            self._stage.bitten["conflict"] += 1
        except StoreError:
            return
        else:
            self.acknowledged.setdefault(number, set()).add(run.id)

    async def _cancel(self, process: Process, app: Redrive, plan: RunPlan) -> None:
        if plan.cancel_at is None:
            return
        await self._sleep_until(plan.cancel_at)
        for run_id in sorted(self.acknowledged.get(plan.number, ())):
            try:
                answer = await app.run(run_id, plan.org).cancel()
            except StoreError:
                continue
            self._stage.note(process, f"cancelled {plan.number}: {answer}")


def _options(plan: RunPlan) -> dict[str, Any]:
    options: dict[str, Any] = {"org": plan.org, "priority": plan.priority, "delay": plan.delay}
    if plan.order_key is not None:
        proceeds = plan.order_key.endswith(PROCEEDS)
        options |= {"order_key": plan.order_key, "after_failure": "proceed" if proceeds else "wait"}
    return options | {"key": f"key-{plan.number}"} if plan.key else options
