"""Retrying a run by hand (P8): only what has failed, and only while what it works on still exists."""

from __future__ import annotations

import asyncio
import inspect

from redrive.engine.definition import Definition
from redrive.engine.task import Task
from redrive.errors import ReplayRefusedError, StoreUnavailableError
from redrive.failures.replays import Kit, Replays, input_of
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.dead_letter import LIVE
from redrive.model.replay import Mode
from redrive.model.run import Run, RunState
from redrive.policy.codec import decode
from redrive.policy.user_text import clean_reason
from redrive.store.replays import NewReplay

MAX_TRIES = 4
_FAILED = (RunState.FAILED, RunState.DLQ_PENDING, RunState.PARTIAL)


class Retries:
    """On behalf of one caller."""

    def __init__(self, kit: Kit, replays: Replays, caller: Caller) -> None:
        self._kit = kit
        self._replays = replays
        self._caller = caller

    async def retry(self, run_id: str, reason: str = "") -> None:
        """Queue a failed run again where it stopped, with a new budget; a partial one goes on behind that."""
        run = await self._kit.store.runs.get(run_id, self._caller.org)
        if run.state not in _FAILED:
            raise ReplayRefusedError(f"the run {run_id} is {run.state}; only one that has failed is retried")
        definition = await self._kit.definitions.get(run.definition)
        index = run.step_index + (1 if run.state == RunState.PARTIAL else 0)
        step_input = await input_of(self._kit.store, run, index)
        await self._check_source(run, definition, index, step_input)
        letters = await self._kit.store.runs.dead_letters(run_id, self._caller.org)
        live = [letter for letter in letters if letter.state in LIVE]
        if live:
            await self._replays.start(live[-1].id, Mode.FROM_STEP, reason=reason)
        else:
            await self._resume(self._new(run, definition, index, step_input, reason))

    def _new(
        self, run: Run, definition: Definition, index: int, step_input: str | None, reason: str
    ) -> NewReplay:
        return NewReplay(
            self._kit.ids.new(),
            self._caller.org,
            "",
            run.id,
            run.step_index,
            index,
            Mode.FROM_STEP,
            0,
            self._caller.name,
            clean_reason(reason, self._kit.redactor),
            step_input=step_input,
            queue=definition.steps[index].queue,
        )

    async def _resume(self, new: NewReplay) -> None:
        async def resume() -> str | None:
            async with self._kit.store.database.transaction() as session:
                queue = await self._kit.store.replays.resume(session, new)
                if queue is not None:
                    detail = {"reason": new.reason, "from_step": new.from_step}
                    entry = NewEntry(*self._caller, Action.RUN_RETRIED, (new.run_id,), detail)
                    await self._kit.store.audit.append(session, [entry])
                return queue

        queue = await self._kit.retrier.run("retry", resume, errors=StoreUnavailableError, tries=MAX_TRIES)
        if queue is not None:
            await self._kit.store.database.hint([queue])
        elif not await self._is_at_work(new):
            raise ReplayRefusedError(f"the run {new.run_id} was changed in this moment; look at it again")

    async def _is_at_work(self, new: NewReplay) -> bool:
        """Was it retried after all, and only the answer lost?"""
        known = await self._kit.store.replays.of_run(new.run_id, self._caller.org)
        return any(each.id == new.id for each in known)

    async def _check_source(
        self, run: Run, definition: Definition, index: int, step_input: str | None
    ) -> None:
        task = self._kit.registry.tasks.get(definition.steps[index].task)
        if task is None or task.source is None:
            return
        text = self._kit.encryption.decrypt(step_input or run.step_input or run.input)
        if not await _exists(task, decode(text)):
            raise ReplayRefusedError(
                f"the run {run.id} cannot be retried: what {task.name!r} works on does not exist any more"
            )


async def _exists(task: Task, payload: object) -> bool:
    """Sync functions may wait for a disk or a server, so they are asked on a thread."""
    source = task.source
    if source is None:
        return True
    try:
        if inspect.iscoroutinefunction(source):
            return bool(await source(payload))
        answer = await asyncio.to_thread(source, payload)
        return bool(await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:
        raise ReplayRefusedError(
            f"whether what {task.name!r} works on still exists is not known: its source check failed with "
            f"{type(error).__name__}"
        ) from error
