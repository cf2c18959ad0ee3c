"""One attempt of a guarded call, as the called function sees it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from redrive.errors import AttemptTimeoutError
from redrive.model.failure import Failure
from redrive.model.step import Tally

if TYPE_CHECKING:
    from redrive.clock import Clock

_FRESH = Tally()


class Attempt:
    """An attempt: its number (starting at 1), the idempotency key of the call, and the time left."""

    __slots__ = (
        "_clock",
        "deadline",
        "expires",
        "failures",
        "idempotency_key",
        "max_attempts",
        "number",
        "operation",
        "over",
        "started",
        "tally",
    )

    def __init__(
        self,
        number: int,
        operation: str,
        max_attempts: int,
        idempotency_key: str | None,
        started: float,
        timeout: float,
        deadline: float | None,
        clock: Clock,
    ) -> None:
        self.number = number
        self.operation = operation
        self.max_attempts = max_attempts
        self.idempotency_key = idempotency_key
        self.started = started
        self.deadline = deadline
        expires = started + timeout
        self.expires = expires if deadline is None or expires < deadline else deadline
        self.tally = _FRESH
        self.failures: tuple[Failure, ...] = ()
        self.over = False
        self._clock = clock

    def remaining(self) -> float:
        """Return the seconds left. Pass them to your client as the timeout."""
        return max(0.0, self.expires - self._clock.monotonic())

    def elapsed(self) -> float:
        return self._clock.monotonic() - self.started

    def check(self) -> None:
        """Raise AttemptTimeoutError when the time is up. Sync code calls this between pieces of work."""
        if self._clock.monotonic() >= self.expires:
            raise self.out_of_time()

    def expires_by(self, clock: Clock) -> float:
        """Return the end of the attempt's time on another clock."""
        return self.expires if clock is self._clock else clock.monotonic() + self.remaining()

    def out_of_time(self) -> AttemptTimeoutError:
        seconds = self.expires - self.started
        return AttemptTimeoutError(
            f"attempt {self.number} of {self.operation!r} took longer than {seconds:.3g} s"
        )

    def __repr__(self) -> str:
        return f"<Attempt {self.number} of at most {self.max_attempts}: {self.operation}>"


CURRENT: ContextVar[Attempt | None] = ContextVar("redrive_attempt", default=None)


def current_attempt() -> Attempt | None:
    """Return the attempt that the running code belongs to, or None outside a guarded call."""
    attempt = CURRENT.get()
    return None if attempt is None or attempt.over else attempt
