"""Entering a failed run among the dead letters on request: what was refused is not lost (M5, M6)."""

from __future__ import annotations

from redrive.engine.definition import Definition
from redrive.engine.outcome import snapshot
from redrive.engine.replays import Kit
from redrive.errors import QueueFullError, ReplayRefusedError
from redrive.model.attempt import AttemptRecord
from redrive.model.caller import Caller
from redrive.model.dead_letter import LIVE
from redrive.model.run import Run, RunState
from redrive.model.step import step_key
from redrive.policy.codec import decode
from redrive.policy.fingerprint import fingerprint
from redrive.store.burials import TOO_MANY
from redrive.store.records import DeadLetterRow

_FAILED = (RunState.FAILED, RunState.DLQ_PENDING)


class Entry:
    """On behalf of one caller."""

    def __init__(self, kit: Kit, caller: Caller) -> None:
        self._kit = kit
        self._caller = caller

    async def enter(self, run_id: str) -> str:
        """Make a dead letter of a failed run that has no live one, out of what the run has kept; its id."""
        store, org = self._kit.store, self._caller.org
        run = await store.runs.get(run_id, org)
        if run.state not in _FAILED:
            raise ReplayRefusedError(f"the run {run_id} is {run.state}; only what has failed is kept")
        for letter in await store.runs.dead_letters(run_id, org):
            if letter.state in LIVE and letter.step_index == run.step_index:
                return letter.id
        attempts = await store.runs.attempts(run_id, org)
        row = await self._row(run, [each for each in attempts if each.step_index == run.step_index][-1])
        async with store.database.transaction() as session:
            if await store.burials.refused(session, [row]):
                most = store.burials.max_size or 0
                raise QueueFullError(f"the run {run_id} was {TOO_MANY}", max_size=most)
            return await store.records.bury(session, row, self._caller.name)

    async def _row(self, run: Run, attempt: AttemptRecord) -> DeadLetterRow:
        definition = await self._kit.definitions.get(run.definition)
        step, redactor = definition.steps[run.step_index], self._kit.redactor
        mark = fingerprint(
            error_type=attempt.error_type or "",
            step=step.name,
            status=attempt.http_status,
            message=attempt.message or "",
        )
        return DeadLetterRow(
            self._kit.ids.new(),
            run.org,
            run.id,
            run.workflow,
            step.name,
            step.task,
            attempt.category or "unknown",
            attempt.error_class or "final",
            attempt.error_type or "",
            attempt.message or "",
            attempt.stack or "",
            attempt.http_status,
            attempt.public_code or "",
            attempt.public_message or "",
            attempt.reason,
            attempt.explanation,
            mark.value,
            redactor.text(mark.reason),
            redactor.text(mark.title),
            self._snapshot(run.step_input or run.input),
            snapshot(step.config, redactor),
            self._policy(run, definition),
            redactor.text(step_key(run.org, run.id, run.idempotency_key, run.step_index)),
            redactor.text(run.correlation_id),
            None if run.tags is None else self._snapshot(run.tags),
            None if run.metadata is None else self._snapshot(run.metadata),
            step.effect,
            breaker=step.breaker,
            code_version=attempt.code_version or "",
        )

    def _snapshot(self, text: str) -> str:
        return snapshot(decode(self._kit.vault.unseal(text)), self._kit.redactor)

    @staticmethod
    def _policy(run: Run, definition: Definition) -> str:
        return run.policy_override or definition.steps[run.step_index].policy_text
