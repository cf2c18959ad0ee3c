"""Work: a claim, with everything this worker needs to execute it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
    """Why a running step is interrupted."""

    CANCELLED = "cancelled"
    DRAINED = "drained"
    LOST = "lost"


class Completion(NamedTuple):
    """A success that the task recorded in its own transaction. It counts once the transaction commits."""

    record: Record
    recorded: Recorded


class Work:
    """The work of a claim. `task` is None if the task is not registered in this worker.

    interruption  why the work is being interrupted; None if it is not
    was_called    the user's function was called, so there may be side effects
    kill          kills the process that executes the step; None if there is no such process
    carrier       the asyncio task that executes the work
    is_in_thread  a thread executes the user's function
    is_abandoned  its function swallowed its cancellation; what it returns is ignored
    running       the carrier while the user's function runs; otherwise None
    outputs       the results of earlier steps, as decrypted text by step name; None until they are read
    completion    the success that the task recorded in its own transaction
    progress      the latest progress reported by the task
    """

    __slots__ = (
        "carrier",
        "claim",
        "completion",
        "context",
        "definition",
        "encryption",
        "interruption",
        "is_abandoned",
        "is_in_thread",
        "kill",
        "limits",
        "outputs",
        "permit",
        "policy",
        "progress",
        "running",
        "slots",
        "step",
        "task",
        "was_called",
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
        self.kill: Callable[[], None] | None = None
        self.is_in_thread = self.is_abandoned = False
        self._set_step(claim, task)

    def _set_step(self, claim: Claim, task: AnyTask | None) -> None:
        self.claim = claim
        self.task = task
        self.step: StepDefinition = self.definition.steps[claim.step_index]
        override = claim.policy_override
        self.policy = self.step.retry if override is None else policy_from_json(decode(override))
        self.limits: dict[str, int] = {}
        self.permit: Permit | None = None
        self.slots: str | None = claim.slots
        self.context: Context | None = None
        self.was_called = False
        self.completion: Completion | None = None
        self.progress: tuple[float | None, str] | None = None

    def start_next_step(self, task: AnyTask, output: str, stored_output: str, seconds: float) -> None:
        """Switch to the next step under the same lease, after the success of this one was recorded."""
        self.outputs = {**(self.outputs or {}), self.step.name: output}
        claim = self.claim
        self._set_step(_next_claim(claim, stored_output, claim.attempt_started_at + seconds), task)

    def interrupt(self, why: Interruption) -> None:
        """Interrupt the work: cancel an async function, or set `context.cancelled` for a sync one.

        A draining worker still waits for a thread: the run must not be given back while it executes.
        """
        if self.interruption is None:
            self.interruption = why
            if self.context is not None:
                self.context.cancel()
            if self.running is not None and not (self.is_in_thread and why is Interruption.DRAINED):
                self.running.cancel()

    @property
    def is_executing(self) -> bool:
        """Whether the user's function is running."""
        return self.running is not None and not self.running.done()

    def revoke(self) -> None:
        """Stop the work's effects, from any thread and at once: the lease is about to end.

        Kill its process, and revoke the context of what cannot be killed. `interrupt` follows in the loop.
        """
        context, kill = self.context, self.kill
        if context is not None:
            context.revoke()
        if kill is not None:
            kill()

    def take_progress(self, redactor: Redactor) -> Progress:
        """Return the latest progress for writing, and clear it."""
        fraction, note = self.progress or (None, "")
        self.progress = None
        text = encode({"fraction": fraction, "note": storable(redactor.text(note))})
        return Progress(id=self.claim.id, token=self.claim.token, epoch=self.claim.epoch, progress=text)

    def note_progress(self, context: Context, fraction: float | None, note: str) -> None:
        self.progress = (fraction, str(storable(note))[:MAX_NOTE_LENGTH])

    @property
    def is_bound(self) -> bool:
        """Whether a breaker or a limit must admit the step before it is executed."""
        return self.task is not None and (self.step.breaker is not None or bool(self.limits))

    @property
    def is_last_step(self) -> bool:
        return self.claim.step_index + 1 == len(self.definition.steps)

    @property
    def goes_on(self) -> bool:
        """Whether the run continues after this step; not if the step is replayed alone."""
        return not self.is_last_step and self.claim.step_only == 0

    @property
    def changes_only_its_run(self) -> bool:
        """Whether its success changes only the run: it finishes no replay and frees no slots."""
        return self.slots is None and self.claim.replays == 0

    @property
    def payload_text(self) -> str:
        """The decrypted payload as text. If it cannot be decrypted, the attempt fails."""
        return self.encryption.decrypt(self.claim.payload)

    @property
    def payload(self) -> JsonValue:
        """The payload, as a new value on every access, because user functions may modify it."""
        return decode_stored(self.payload_text)

    @property
    def opened(self) -> Claim:
        """The claim with its encrypted values decrypted, for use in the attempt only."""
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
    """Creates the work of a claim: finds its definition, its task and its concurrency limits."""

    def __init__(
        self,
        registry: Registry,
        definitions: Definitions,
        retrier: StoreRetrier,
        encryption: Encryption,
        org_concurrency: int | None,
    ) -> None:
        self.definitions = definitions
        self._registry = registry
        self._retrier = retrier
        self._encryption = encryption
        self._org_concurrency = org_concurrency

    def known(self, claim: Claim) -> Work | None:
        """Return the work of a claim, or None if its definition is not in the cache."""
        definition = self.definitions.known(claim.definition)
        return None if definition is None else self.make(claim, definition)

    async def of(self, claim: Claim) -> Work:
        definition = await self._retrier.run("read", partial(self.definitions.get, claim.definition))
        return self.make(claim, definition)

    def next_queue(self, work: Work) -> str:
        """Return the queue of the next step, which is its task's queue.

        A run started in another queue stays there as long as the steps have the same queue.
        """
        step = work.definition.steps[work.claim.step_index + 1]
        return work.claim.queue if step.queue == work.step.queue else step.queue

    def next_task(self, work: Work, queue: str) -> AnyTask | None:
        """Return the task of the next step if it can start under the same lease, otherwise None.

        It can if the task is registered here, has no breaker and no limit, is in the same queue, and the run
        is not being replayed.
        """
        step = work.definition.steps[work.claim.step_index + 1]
        task = self._registry.task(step.task)
        if task is None or task.concurrency is not None or self._org_concurrency is not None:
            return None
        in_place = step.breaker is None and queue == work.claim.queue and work.claim.replays == 0
        return task if in_place else None

    def make(self, claim: Claim, definition: Definition) -> Work:
        task = self._registry.task(definition.steps[claim.step_index].task)
        work = Work(claim, definition, task, self._encryption)
        if self._org_concurrency is not None:
            work.limits[f"org:{claim.org}"] = self._org_concurrency
        if task is not None and task.concurrency is not None:
            work.limits |= task.limit_for(claim.org, lambda: work.payload)
        return work


def _next_claim(claim: Claim, output: str, now: float) -> Claim:
    """Return the claim of the next step under the same lease."""
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
