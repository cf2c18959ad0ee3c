"""Work: a claim, and what this worker knows about it."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from redrive.engine.context import Context
from redrive.engine.definition import Definition, Definitions, StepDefinition
from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.engine.registry import Registry
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.task import AnyTask
from redrive.model.breaker import Permit
from redrive.model.claim import Claim, Isolation
from redrive.model.event import StepRef
from redrive.policy.codec import JsonValue, decode, decode_stored, encode, storable
from redrive.policy.policy_json import policy_from_json
from redrive.policy.redact import Redactor
from redrive.store.record import Progress, Record, Recorded

MAX_NOTE_LENGTH = 500


class Interruption(StrEnum):
    """Why a step is stopped from outside."""

    CANCELLED = "cancelled"
    DRAINED = "drained"
    LOST = "lost"


class Completion(NamedTuple):
    """A success that the task has recorded in its own transaction. It holds once that is committed."""

    record: Record
    recorded: Recorded


class Work:
    """`task` is None when no task of that name is registered here.

    interruption  why it is to be stopped, once it is
    begun         the user's function was called, so that something may have happened outside
    carrier       the asyncio task that it is executed in
    running       the same, while the user's function is executed
    outputs       what the earlier steps have given, as readable text by their names; None until it is read
    completion    its success, which the task has recorded within a transaction of its own
    progress      what the task has said last about how far it is
    """

    __slots__ = (
        "begun",
        "carrier",
        "claim",
        "completion",
        "context",
        "definition",
        "encryption",
        "interruption",
        "limits",
        "outputs",
        "permit",
        "policy",
        "progress",
        "running",
        "slots",
        "step",
        "task",
    )

    def __init__(
        self,
        claim: Claim,
        definition: Definition,
        task: AnyTask | None,
        encryption: Encryption = NO_ENCRYPTION,
    ) -> None:
        self.encryption = encryption
        self.definition = definition
        self.outputs: dict[str, str] | None = None if claim.step_index else {}
        self.interruption: Interruption | None = None
        self.carrier: asyncio.Task[None] | None = None
        self.running: asyncio.Task[None] | None = None
        self._begin_step(claim, task)

    def _begin_step(self, claim: Claim, task: AnyTask | None) -> None:
        self.claim = claim
        self.task = task
        self.step: StepDefinition = self.definition.steps[claim.step_index]
        override = claim.policy_override
        self.policy = self.step.retry if override is None else policy_from_json(decode(override))
        self.limits: dict[str, int] = {}
        self.permit: Permit | None = None
        self.slots: str | None = claim.slots
        self.context: Context | None = None
        self.begun = False
        self.completion: Completion | None = None
        self.progress: tuple[float | None, str] | None = None

    def go_on(self, task: AnyTask, output: str, stored_output: str, seconds: float) -> None:
        """Go on to the next step under the same lease, once that is recorded."""
        self.outputs = {**(self.outputs or {}), self.step.name: output}
        claim = self.claim
        self._begin_step(_next_claim(claim, stored_output, claim.attempt_started_at + seconds), task)

    def interrupt(self, why: Interruption) -> None:
        """Stop it: at once where the function can be stopped, else as soon as it listens."""
        if self.interruption is None:
            self.interruption = why
            if self.context is not None:
                self.context.cancel()
            if self.running is not None:
                self.running.cancel()

    def take_progress(self, redactor: Redactor) -> Progress:
        """What is to be written, once."""
        fraction, note = self.progress or (None, "")
        self.progress = None
        text = encode({"fraction": fraction, "note": storable(redactor.text(note))})
        return Progress(id=self.claim.id, token=self.claim.token, epoch=self.claim.epoch, progress=text)

    def note_progress(self, context: Context, fraction: float | None, note: str) -> None:
        self.progress = (fraction, str(storable(note))[:MAX_NOTE_LENGTH])

    @property
    def is_bound(self) -> bool:
        """Has a breaker or a limit to be asked before it is executed?"""
        return self.task is not None and (self.step.breaker is not None or bool(self.limits))

    @property
    def is_last_step(self) -> bool:
        return self.claim.step_index + 1 == len(self.definition.steps)

    @property
    def goes_on(self) -> bool:
        """Does the run go on when this step has succeeded? Not when it is replayed alone."""
        return not self.is_last_step and self.claim.step_only == 0

    @property
    def has_nothing_beside(self) -> bool:
        """Does its success end no replay and free no slots?"""
        return self.slots is None and self.claim.replays == 0

    @property
    def payload_text(self) -> str:
        """The payload as readable text. One that cannot be decrypted is a failure of the attempt."""
        return self.encryption.decrypt(self.claim.payload)

    @property
    def payload(self) -> JsonValue:
        """The payload as a new value each time: users' functions may change the one that they are given."""
        return decode_stored(self.payload_text)

    @property
    def opened(self) -> Claim:
        """The claim with everything readable that is stored encrypted: for the attempt alone."""
        return self.encryption.opened(self.claim)

    @property
    def policy_text(self) -> str:
        override = self.claim.policy_override
        return self.step.policy_text if override is None else override

    @property
    def ref(self) -> StepRef:
        claim = self.claim
        return StepRef(
            org=claim.org,
            run_id=claim.id,
            workflow=claim.workflow,
            step_index=claim.step_index,
            step=self.step.name,
            task=self.step.task,
            queue=claim.queue,
            attempt=claim.attempt,
            correlation_id=claim.correlation_id,
        )


class WorkFactory:
    """Makes the work of a claim: finds its definition, its task and the limits it counts against."""

    def __init__(
        self,
        registry: Registry,
        definitions: Definitions,
        retrier: StoreRetrier,
        encryption: Encryption,
        org_concurrency: int | None,
    ) -> None:
        self._registry = registry
        self._definitions = definitions
        self._retrier = retrier
        self._encryption = encryption
        self._org_concurrency = org_concurrency

    def known(self, claim: Claim) -> Work | None:
        """The work of a claim whose definition was read before."""
        definition = self._definitions.known(claim.definition)
        return None if definition is None else self.make(claim, definition)

    async def of(self, claim: Claim) -> Work:
        definition = await self._retrier.run("read", partial(self._definitions.get, claim.definition))
        return self.make(claim, definition)

    def next_queue(self, work: Work) -> str:
        """The queue of the next step: that of its task; a run that was started in another queue stays there
        while its tasks share one."""
        step = work.definition.steps[work.claim.step_index + 1]
        return work.claim.queue if step.queue == work.step.queue else step.queue

    def next_task(self, work: Work, queue: str) -> AnyTask | None:
        """The task of the next step, which is in `queue`, if it can start under the same lease: it is known
        here, and no breaker, no limit, no other queue and no replay are in between."""
        step = work.definition.steps[work.claim.step_index + 1]
        task = self._registry.tasks.get(step.task)
        if task is None or task.concurrency is not None or self._org_concurrency is not None:
            return None
        in_place = step.breaker is None and queue == work.claim.queue and work.claim.replays == 0
        return task if in_place else None

    def make(self, claim: Claim, definition: Definition) -> Work:
        task = self._registry.tasks.get(definition.steps[claim.step_index].task)
        work = Work(claim, definition, task, self._encryption)
        if self._org_concurrency is not None:
            work.limits[f"org:{claim.org}"] = self._org_concurrency
        if task is not None and task.concurrency is not None:
            work.limits |= task.limit_for(claim.org, lambda: work.payload)
        return work


def _next_claim(claim: Claim, output: str, now: float) -> Claim:
    """The claim of the next step under the same lease, as it is recorded."""
    return claim.replace(
        step_index=claim.step_index + 1,
        step_input=output,
        attempt=1,
        epoch=claim.epoch + 1,
        failures=0,
        rate_limit_waits=0,
        holds=0,
        losses=0,
        isolated_crashes=0,
        isolation=Isolation.NONE,
        previous_delay=None,
        attempt_started_at=now,
        slots=None,
        policy_override=None,
        redrives=0,
    )
