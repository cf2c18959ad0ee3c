"""Every exception of Redrive.

RedriveError
├── InvalidValueError          an argument or a setting is wrong (also a ValueError)
│   ├── InvalidFieldError      one field of a policy or of a change is wrong
│   ├── NotStorableError       a value cannot be kept as JSON
│   │   └── SealedError        it is encrypted with a key that is not configured here (also Unavailable)
│   ├── InvalidKeyError        a part of an idempotency key cannot be encoded
│   └── PayloadError           a payload does not fit the types of the task
├── NotFoundError              there is no such run, task, workflow or breaker
├── AlreadyExistsError         the name is taken already
├── AccessDeniedError          whoever asks may not do this
│   └── SignedOutError         their session has ended
├── ConflictError              the idempotency key was used before, for other work
├── KeyReusedError             the idempotency key stands for another request
├── DriftError                 what was planned or counted before is not so any more
│   └── NumberDriftError       there are not as many as expected
├── ReplayRefusedError         replaying makes no sense in the present state
├── QueueFullError             a dead-letter queue holds as many as it may; nothing was stored
├── LeaseLostError             somebody else has the step by now; what this worker has done does not count
├── RunFailedError             the run that was waited for did not succeed
├── RunCancelledError          raised inside of a task whose run was cancelled
├── StoreError                 the database cannot do what was asked
│   ├── StoreUnavailableError  it cannot be reached or written at the moment; trying again may help
│   ├── StatementTimeoutError  a query took longer than it may; narrower, it may be fast enough
│   └── SchemaError            its tables are of another version
├── TransitionError            a state was to change in a way its table does not allow
│   └── LastOwnerError         an organization was to lose its last owner
├── VerdictError               raised by your own code to say what a failure is
│   ├── FinalError             trying again cannot help
│   │   └── RecordedFailureError  the request of this idempotency key has failed before, for good
│   ├── RetryableError         trying again may help
│   └── RateLimitedError       trying again helps after a while
├── UnavailableError           the dependency was not asked at all
│   └── BreakerOpenError       its circuit breaker is open
├── DeferredError              the wait is too long to sit through; come back later
│   └── InProgressError        somebody else is executing the request of this idempotency key
├── AttemptTimeoutError        an attempt ran out of time (also a TimeoutError)
├── ProcessDiedError           the process of an attempt has ended without an answer
└── HttpError                  an HTTP exchange ended without a usable answer
    ├── HttpStatusError        the server answered with an error status
    └── HttpContentError       the answer is not what was agreed (not JSON, wrong shape)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redrive.duration import Seconds


class RedriveError(Exception):
    """The root of all errors that Redrive raises. They can be copied, and sent to other processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args`, which do not hold what is given by keyword.
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[RedriveError], args: tuple[Any, ...], attributes: dict[str, Any]) -> RedriveError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def _seconds(duration: Seconds) -> float:
    if isinstance(duration, float):
        return duration
    from redrive.duration import to_seconds  # loads datetime, which `import redrive` does not need

    return to_seconds(duration)


class InvalidValueError(RedriveError, ValueError):
    """An argument or a setting is wrong. The message names what is allowed."""


class InvalidFieldError(InvalidValueError):
    """A field is wrong: `field` names it, `problem` says what is allowed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.problem = problem


class NotStorableError(InvalidValueError):
    """A value cannot be kept as JSON. The message says where in the value, and why."""


class InvalidKeyError(InvalidValueError):
    """A part of an idempotency key cannot be encoded without ambiguity."""


class PayloadError(InvalidValueError):
    """A payload does not fit the types of the task."""


class NotFoundError(RedriveError):
    """There is no such run, task, workflow or breaker."""


class AlreadyExistsError(RedriveError):
    """The name is taken already: of an organization, a member or a key."""


class AccessDeniedError(RedriveError):
    """Whoever asks may not do this; the message says who may."""


class SignedOutError(AccessDeniedError):
    """The session has ended; sign in again."""


class ConflictError(RedriveError):
    """The idempotency key was used before, for other work; `run_id` is the run that has it."""

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class KeyReusedError(RedriveError):
    """The idempotency key stands for another request, and nothing was executed for this one."""


class DriftError(RedriveError):
    """What was planned or counted before is not so any more; nothing was done.

    `changes` are the first differences (redrive.model.operation.Drift), `number` is how many there are, or
    how many were found where another number was expected.
    """

    def __init__(self, message: str, *, changes: Sequence[Any] = (), number: int = 0) -> None:
        super().__init__(message)
        self.changes = tuple(changes)
        self.number = number


class NumberDriftError(DriftError):
    """There are not as many as expected; nothing was done. `number` is how many were found."""


class ReplayRefusedError(RedriveError):
    """Replaying makes no sense in the present state; the message says why, and what to do first."""


class QueueFullError(RedriveError):
    """A dead-letter queue holds `max_size` live ones. Nothing was stored, and nothing was evicted for it."""

    def __init__(self, message: str, *, max_size: int) -> None:
        super().__init__(message)
        self.max_size = max_size


class LeaseLostError(RedriveError):
    """Somebody else has the step by now; what this worker has done does not count."""


class RunFailedError(RedriveError):
    """The run that was waited for did not succeed; `state` tells how it ended."""

    def __init__(self, message: str, *, run_id: str, state: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.state = state


class RunCancelledError(RedriveError):
    """Raised inside of a task whose run was cancelled."""


class StoreError(RedriveError):
    """The database cannot do what was asked."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached or written at the moment; trying again may help."""


class StatementTimeoutError(StoreError):
    """A query was stopped because it took longer than `seconds`. Nothing of it was written."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class SchemaError(StoreError):
    """The tables are of another version than this program."""


class TransitionError(RedriveError):
    """A state was to change in a way its transition table does not allow."""


class LastOwnerError(TransitionError):
    """An organization was to lose its last owner; make another member an owner first."""


class VerdictError(RedriveError):
    """Your code knows what the failure is and says so; `retry_after` takes seconds or a timedelta."""

    def __init__(self, message: str = "", *, retry_after: Seconds | None = None) -> None:
        super().__init__(message)
        self.retry_after = None if retry_after is None else _seconds(retry_after)


class FinalError(VerdictError):
    """Trying again cannot help."""


class RecordedFailureError(FinalError):
    """The request of this idempotency key has failed before, for good, and was not executed again.

    `error_type` and `error_message` are those of the failure, redacted.
    """

    def __init__(self, message: str, *, error_type: str = "", error_message: str = "") -> None:
        super().__init__(message)
        self.error_type = error_type
        self.error_message = error_message


class RetryableError(VerdictError):
    """Trying again may help."""


class RateLimitedError(VerdictError):
    """Trying again helps, after `retry_after` seconds where the server named them."""


class UnavailableError(RedriveError):
    """The dependency was not asked at all, so nothing can have happened there."""

    def __init__(self, dependency: str, message: str, *, retry_after: Seconds | None = None) -> None:
        super().__init__(message)
        self.dependency = dependency
        self.retry_after = None if retry_after is None else _seconds(retry_after)


class BreakerOpenError(UnavailableError):
    """The circuit breaker of the dependency is open, or its probe slots are taken."""


class SealedError(NotStorableError, UnavailableError):
    """A stored value is encrypted with a key that is not configured here; `key_id` names it.

    Work that needs it is given back, for a worker that has the key.
    """

    def __init__(self, message: str, *, key_id: str) -> None:
        UnavailableError.__init__(self, "encryption key", message)
        self.key_id = key_id


class DeferredError(RedriveError):
    """The next attempt is too far away to wait for; `retry_after` seconds from now it is due.

    The failure that asked for the wait is the `__cause__`.
    """

    def __init__(self, message: str, *, retry_after: Seconds) -> None:
        super().__init__(message)
        self.retry_after = _seconds(retry_after)


class InProgressError(DeferredError):
    """Somebody else is executing the request of this idempotency key; look again in `retry_after` seconds."""


class AttemptTimeoutError(RedriveError, TimeoutError):
    """An attempt did not finish within its time."""


class ProcessDiedError(RedriveError):
    """The process of an attempt has ended without an answer: it crashed, or was killed."""


class HttpError(RedriveError):
    """An HTTP exchange ended without a usable answer."""


class HttpStatusError(HttpError):
    """The server answered with an error status. `body` is the beginning of the answer, redacted."""

    def __init__(
        self, message: str, *, status: int, headers: dict[str, str] | None = None, body: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body = body


class HttpContentError(HttpError):
    """The answer arrived but is not what was agreed: not JSON, or not of the expected shape."""
