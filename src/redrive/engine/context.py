"""The context of an attempt, which a task function can receive as an argument."""

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
from redrive.errors import (
    AttemptTimeoutError,
    DeferredError,
    InvalidValueError,
    LeaseLostError,
    RunCancelledError,
)
from redrive.model.claim import Claim
from redrive.model.step import step_key as key_of_step
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_seconds
from redrive.policy.codec import JsonValue, decode_stored


class Context:
    """One attempt of one step.

    attempt           its number, starting at 1
    idempotency_key   the same for every attempt of this step: pass it to systems that detect duplicates
    fence             increases with every attempt of the run: other systems can reject a lower one as stale
    results           the results of the earlier steps, by step name
    config            the config that the workflow sets for this step
    deadline          when the attempt times out, in seconds since 1970
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
        "_revoked",
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
        self._cancelled = self._revoked = False
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
        """How many attempts of this step have failed so far, not counting waits that cost no attempt."""
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
        """A logger that adds the run, the step and the attempt to its records, in `record.fields`."""
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
        """Start the attempt's time now, because until now it was waiting for a thread."""
        self._started = self._clock.monotonic()
        self._expires = self._started + self._step.timeout

    def remaining(self) -> float:
        """Seconds left for this attempt. Pass them to your client as the timeout."""
        return max(0.0, self._expires - self._clock.monotonic())

    def elapsed(self) -> float:
        return self._clock.monotonic() - self._started

    def out_of_time(self) -> AttemptTimeoutError:
        return AttemptTimeoutError(
            f"attempt {self.attempt} of step {self.step!r} took longer than {self._step.timeout:.3g} s"
        )

    @property
    def cancelled(self) -> bool:
        """Whether the task should stop: cancelled, timed out, lease lost, or the worker is stopping."""
        return self._cancelled

    def check(self) -> None:
        """Raise if the lease is lost, the run was cancelled or the time is up.

        Sync code calls this between pieces of work.
        """
        self.require_lease()
        if self._cancelled:
            raise RunCancelledError(f"the run {self.run_id} was cancelled, or its worker is stopping")
        if self._clock.monotonic() >= self._expires:
            raise self.out_of_time()

    def cancel(self) -> None:
        """Ask the task to stop: sets `cancelled`, which the task can check."""
        self._cancelled = True

    def revoke(self) -> None:
        """Stop this attempt from having effects, because another worker may execute the step from now on.

        Any thread may call this. HTTP clients, `start`, `progress` and `complete` then raise LeaseLostError.
        """
        self._revoked = self._cancelled = True

    @property
    def revoked(self) -> bool:
        """Whether the attempt may have no more effects; see `revoke`."""
        return self._revoked

    def require_lease(self) -> None:
        """Raise LeaseLostError if another worker may execute the step, or may have executed it already."""
        if self._revoked:
            raise LeaseLostError(
                f"attempt {self.attempt} of step {self.step!r} of run {self.run_id} no longer holds its "
                f"lease, and another worker may execute the step. Stop without further effects"
            )

    def progress(self, fraction: float | None = None, note: str = "") -> None:
        """Report the progress, as a fraction from 0 to 1 or as a note. Cheap: it is written periodically."""
        self.require_lease()
        if fraction is not None:
            require("fraction", fraction, 0.0, 1.0)
        if self._report is not None:
            self._report(self, fraction, note)

    def defer(self, until: Seconds | datetime) -> NoReturn:
        """Stop here and execute the step again after a duration or at a time, without using up an attempt."""
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise InvalidValueError(
                    f"until must have a time zone, got {until!r}; for example datetime.now(UTC)"
                )
            until = max(0.0, until.timestamp() - self._clock.now())
        until = require_seconds("until", until, 0.0, MAX_DELAY_SECONDS)
        raise DeferredError(f"step {self.step!r} deferred itself for {until:g} s", retry_after=until)

    def complete(self, result: object, *, connection: object) -> Any:
        """Record the success of this step in your own PostgreSQL transaction, together with your changes.

        Then commit and return. With an async connection, await this call. It raises LeaseLostError if another
        worker has taken over the step: roll back.
        """
        self.require_lease()
        if self._complete is None:
            raise InvalidValueError(
                'complete() is not available with isolation="process"; use isolation="thread"'
            )
        return self._complete(result, connection)


def step_key(claim: Claim) -> str:
    return key_of_step(claim.org, claim.id, claim.idempotency_key, claim.step_index)
