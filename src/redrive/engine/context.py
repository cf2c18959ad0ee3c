"""What a task may ask about the attempt it is executed in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, NoReturn

from redrive.clock import Clock
from redrive.duration import Seconds
from redrive.engine.definition import StepDefinition
from redrive.errors import AttemptTimeoutError, DeferredError, InvalidValueError, RunCancelledError
from redrive.model.claim import Claim
from redrive.model.step import step_key as key_of_step
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_seconds
from redrive.policy.codec import JsonValue, decode_stored


class Context:
    """One attempt of one step.

    attempt           its number; 1 is the first
    idempotency_key   the same on every attempt of this step: hand it to whatever recognises repetitions
    fence             rises with every attempt of the run: whoever has seen a higher one refuses a lower
    results           what the earlier steps have given, by the names of the steps
    config            what the workflow has set for this step
    deadline          when its time is over, in seconds since 1970
    """

    __slots__ = (
        "__dict__",
        "_cancelled",
        "_claim",
        "_clock",
        "_complete",
        "_expires",
        "_outputs",
        "_report",
        "_started",
        "_step",
        "max_attempts",
    )

    def __init__(
        self,
        claim: Claim,
        step: StepDefinition,
        clock: Clock,
        *,
        max_attempts: int | None = None,
        outputs: Mapping[str, str] = MappingProxyType({}),
        report: Callable[[Context, float | None, str], None] | None = None,
        complete: Callable[[object, object], Any] | None = None,
    ) -> None:
        self._claim = claim
        self._step = step
        self._clock = clock
        self._started = clock.monotonic()
        self._expires = self._started + step.timeout
        self._cancelled = False
        self.max_attempts = step.retry.max_attempts if max_attempts is None else max_attempts
        self._report = report
        self._complete = complete
        self._outputs = outputs

    @property
    def run_id(self) -> str:
        return self._claim.id

    @property
    def org(self) -> str:
        return self._claim.org

    @property
    def workflow(self) -> str:
        return self._claim.workflow

    @property
    def step(self) -> str:
        return self._step.name

    @property
    def step_index(self) -> int:
        return self._claim.step_index

    @property
    def attempt(self) -> int:
        return self._claim.attempt

    @property
    def failures(self) -> int:
        """How many attempts of this step have failed so far; waits that cost nothing are not among them."""
        return self._claim.failures

    @property
    def idempotency_key(self) -> str:
        return step_key(self._claim)

    @property
    def fence(self) -> int:
        return self._claim.epoch

    @property
    def correlation_id(self) -> str:
        return self._claim.correlation_id

    @cached_property
    def config(self) -> JsonValue:
        return decode_stored(self._step.config_text)

    @cached_property
    def results(self) -> dict[str, JsonValue]:
        return {step: decode_stored(output) for step, output in self._outputs.items()}

    @cached_property
    def run_input(self) -> JsonValue:
        return decode_stored(self._claim.input)

    @cached_property
    def tags(self) -> list[str]:
        tags: Any = [] if self._claim.tags is None else decode_stored(self._claim.tags)
        return list(tags)

    @cached_property
    def metadata(self) -> Any:
        return {} if self._claim.metadata is None else decode_stored(self._claim.metadata)

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the run, the step and the attempt in `record.fields`."""
        fields = {
            "org_id": self.org,
            "run_id": self.run_id,
            "workflow": self.workflow,
            "step": self.step,
            "attempt": self.attempt,
            "correlation_id": self.correlation_id,
        }
        return logging.LoggerAdapter(logging.getLogger(f"redrive.task.{self._step.task}"), {"fields": fields})

    @property
    def deadline(self) -> float:
        return self._clock.now() + self.remaining()

    def begin(self) -> None:
        """Its time starts now: until here it has waited for a thread."""
        self._started = self._clock.monotonic()
        self._expires = self._started + self._step.timeout

    def remaining(self) -> float:
        """Seconds that this attempt may still take. Hand it to your client as its timeout."""
        return max(0.0, self._expires - self._clock.monotonic())

    def elapsed(self) -> float:
        return self._clock.monotonic() - self._started

    def out_of_time(self) -> AttemptTimeoutError:
        return AttemptTimeoutError(
            f"attempt {self.attempt} of step {self.step!r} took longer than {self._step.timeout:.3g} s"
        )

    @property
    def cancelled(self) -> bool:
        """Somebody has cancelled the run, or the worker is about to stop."""
        return self._cancelled

    def check(self) -> None:
        """Raise when the run was cancelled or the time is over. For sync code, between its pieces of work."""
        if self._cancelled:
            raise RunCancelledError(f"the run {self.run_id} was cancelled, or its worker is stopping")
        if self._clock.monotonic() >= self._expires:
            raise self.out_of_time()

    def cancel(self) -> None:
        """Tell the task, where it listens, that it should stop."""
        self._cancelled = True

    def progress(self, fraction: float | None = None, note: str = "") -> None:
        """Say how far it is, from 0 to 1, or None. It costs next to nothing and is written now and then."""
        if fraction is not None:
            require("fraction", fraction, 0.0, 1.0)
        if self._report is not None:
            self._report(self, fraction, note)

    def defer(self, until: Seconds | datetime) -> NoReturn:
        """Stop here and execute the step again after some seconds or a timedelta, or at a time.

        It costs no attempt.
        """
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise InvalidValueError(f"the time must have a time zone, got {until!r}")
            until = max(0.0, until.timestamp() - self._clock.now())
        until = require_seconds("until", until, 0.0, MAX_DELAY_SECONDS)
        raise DeferredError(f"{self.step!r} asked to be executed again in {until:g} s", retry_after=until)

    def complete(self, result: object, *, connection: object) -> Any:
        """Record the success of this step in your own PostgreSQL transaction, together with your changes.

        Commit afterwards and return. Await it when the connection is an async one. When the lease was lost it
        raises LeaseLostError: roll back.
        """
        if self._complete is None:
            raise InvalidValueError("a step in a process of its own cannot be completed within a transaction")
        return self._complete(result, connection)


def step_key(claim: Claim) -> str:
    return key_of_step(claim.org, claim.id, claim.idempotency_key, claim.step_index)
