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
        "permit",
        "policy",
        "progress",
        "results",
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
        self.claim = claim
        self.encryption = encryption
        self.definition = definition
        self.step: StepDefinition = definition.steps[claim.step_index]
        override = claim.policy_override
        self.policy = self.step.retry if override is None else policy_from_json(decode(override))
        self.task = task
        self.limits: dict[str, int] = {}
        self.permit: Permit | None = None
        self.slots: str | None = claim.slots
        self.results: dict[str, JsonValue] | None = None if claim.step_index else {}
        self.context: Context | None = None
        self.interruption: Interruption | None = None
        self.carrier: asyncio.Task[None] | None = None
        self.running: asyncio.Task[None] | None = None
        self.begun = False
        self.completion: Completion | None = None
        self.progress: tuple[float | None, str] | None = None

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
        """Is its success written into the run alone, without a finished step, a replay or slots to free?"""
        return len(self.definition.steps) == 1 and self.slots is None and self.claim.replays == 0

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

    def following(self, work: Work, output: str, seconds: float) -> Work:
        """The next step of the run, after `work` has given `output`.

        It waits in the queue of its task; a run that was started in another queue stays there while its tasks
        share one.
        """
        step = work.definition.steps[work.claim.step_index + 1]
        queue = work.claim.queue if step.queue == work.step.queue else step.queue
        claim = _next_claim(work.claim, output, queue, work.claim.attempt_started_at + seconds)
        return self.make(claim, work.definition)

    def make(self, claim: Claim, definition: Definition) -> Work:
        task = self._registry.tasks.get(definition.steps[claim.step_index].task)
        work = Work(claim, definition, task, self._encryption)
        if self._org_concurrency is not None:
            work.limits[f"org:{claim.org}"] = self._org_concurrency
        if task is not None and task.concurrency is not None:
            work.limits |= task.limit_for(claim.org, lambda: work.payload)
        return work


def _next_claim(claim: Claim, output: str, queue: str, now: float) -> Claim:
    """The claim of the next step under the same lease, as it is recorded."""
    return claim.replace(
        step_index=claim.step_index + 1,
        step_input=output,
        queue=queue,
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
