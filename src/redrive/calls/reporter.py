"""Telling what happens to a call: to the log, and to the hooks. Nothing that listens can harm the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from redrive.calls import log
from redrive.calls.attempt import Attempt
from redrive.calls.event import AttemptFailed, CallEvent, CallRecovered
from redrive.model.decision import Explanation
from redrive.model.failure import Failure

Hook = Callable[[CallEvent], object]


@dataclass(frozen=True, slots=True)
class CallReporter:
    fields: Mapping[str, Any]
    hooks: tuple[Hook, ...]

    def failed(
        self, attempt: Attempt, seconds: float, failure: Failure, why: Explanation, wait: float | None
    ) -> None:
        # A call that an open breaker did not let through is expected; it must not flood the log in an outage.
        alarming = wait is None and not failure.unavailable
        if self._is_heard(alarming):
            event = AttemptFailed(*_heading(attempt), seconds, failure, why.reason, why, wait)
            self._tell(event, alarming)

    def recovered(self, attempt: Attempt) -> None:
        if self._is_heard(alarming=False):
            self._tell(CallRecovered(*_heading(attempt), attempt.elapsed()), alarming=False)

    def _is_heard(self, alarming: bool) -> bool:
        """No event is made that nobody receives."""
        return bool(self.hooks) or log.is_wanted(alarming=alarming)

    def _tell(self, event: CallEvent, alarming: bool) -> None:
        if log.is_wanted(alarming=alarming):
            log.write(event, self.fields, alarming=alarming)
        for hook in self.hooks:
            try:
                hook(event)
            except Exception as error:  # noqa: BLE001
                log.complain(event.operation, hook, error)


def _heading(attempt: Attempt) -> tuple[str, int, int, str | None]:
    return attempt.operation, attempt.number, attempt.max_attempts, attempt.idempotency_key
