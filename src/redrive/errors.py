"""All exceptions that Redrive raises.

RedriveError
├── InvalidValueError          an argument or a setting is invalid (also a ValueError)
│   ├── InvalidFieldError      one field of a policy or of a change is invalid
│   ├── NotStorableError       a value cannot be stored as JSON
│   │   └── SealedError        it is encrypted with a key that is not configured (also UnavailableError)
│   ├── AmbiguousIdError       several ids start with the given one
│   ├── InvalidKeyError        a part of an idempotency key cannot be encoded
│   └── PayloadError           a payload does not match the task's type annotations
├── NotFoundError              the run, task, workflow or breaker does not exist
├── AlreadyExistsError         the name is already in use
│   └── NameTakenError         ... perhaps by another organization
├── AccessDeniedError          the caller lacks the permission
│   └── SignedOutError         the session has ended
├── ConflictError              the idempotency key belongs to a run with other work
├── KeyReusedError             the idempotency key belongs to another request
├── DriftError                 the data changed after it was planned or counted
│   └── NumberDriftError       the number of matches is not the expected one
├── ReplayRefusedError         a replay is not possible in the current state
├── QueueFullError             the dead-letter queue is full; nothing was stored
├── LeaseLostError             another worker has taken over the step; this worker's result was discarded
├── RunFailedError             the awaited run did not succeed
├── RunCancelledError          raised inside a task whose run was cancelled
├── StoreError                 a database operation failed
│   ├── StoreUnavailableError  the database cannot be reached or written to; retrying may help
│   ├── StatementTimeoutError  a query exceeded its time limit; a narrower one may not
│   ├── IsolationError         PostgreSQL lacks the role that isolates organizations
│   └── SchemaError            the tables belong to another version of Redrive
├── TransitionError            the state machine does not allow this change
│   └── LastOwnerError         an organization must keep at least one owner
├── VerdictError               raised by your own code to classify a failure
│   ├── FinalError             retrying won't help
│   │   └── RecordedFailureError  the request with this idempotency key already failed permanently
│   ├── RetryableError         retrying may help
│   └── RateLimitedError       retry after a delay
├── UnavailableError           the dependency was not called
│   └── BreakerOpenError       its circuit breaker is open
├── DeferredError              the next attempt is too far away to wait for
│   └── InProgressError        another process is executing the request with this idempotency key
├── AttemptTimeoutError        an attempt ran out of time (also a TimeoutError)
├── ProcessDiedError           the process of an attempt exited without a result
└── HttpError                  an HTTP request got no usable response
    ├── HttpStatusError        the server responded with an error status
    └── HttpContentError       the response is not valid JSON or has the wrong shape
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redrive.duration import Seconds
    from redrive.model.failure import PayloadMismatch


class RedriveError(Exception):
    """Base class of all errors that Redrive raises. Its subclasses can be copied and pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args`, which lack the keyword arguments.
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
    """An argument or a setting is invalid. The message says what is allowed."""


class InvalidFieldError(InvalidValueError):
    """A field is invalid: `field` is its name, `problem` says what is allowed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.problem = problem


class QueryWordError(InvalidValueError):
    """A query has an unknown word: a key or a value.

    `position` is where it starts, counted from 1; `suggestion` is a similar word that is known, or None.
    """

    def __init__(self, message: str, *, word: str, position: int, suggestion: str | None) -> None:
        super().__init__(message)
        self.word = word
        self.position = position
        self.suggestion = suggestion


class NotStorableError(InvalidValueError):
    """A value cannot be stored as JSON. The message gives the path within the value and the reason."""


class AmbiguousIdError(InvalidValueError):
    """Several ids start with the given one. `candidates` lists some of them (redrive.model.id.Candidate)."""

    def __init__(self, message: str, *, candidates: Sequence[Any]) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class InvalidKeyError(InvalidValueError):
    """A part of an idempotency key cannot be encoded unambiguously."""


class PayloadError(InvalidValueError):
    """A payload does not match the type annotations of the task.

    `mismatch`, a `redrive.model.failure.PayloadMismatch`, has the names of the expected and the given
    fields, if the task expects an object.
    """

    def __init__(self, message: str = "", *, mismatch: PayloadMismatch | None = None) -> None:
        super().__init__(message)
        self.mismatch = mismatch


class NotFoundError(RedriveError):
    """The run, task, workflow or breaker does not exist."""


class AlreadyExistsError(RedriveError):
    """An organization, member or key with this name already exists."""


class NameTakenError(AlreadyExistsError):
    """Another organization may use the name. The message doesn't say whether it does."""


class AccessDeniedError(RedriveError):
    """The caller lacks the permission. The message says who has it."""


class SignedOutError(AccessDeniedError):
    """The session has ended. Sign in again."""


class ConflictError(RedriveError):
    """The idempotency key belongs to a run with other work: `run_id`."""

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class KeyReusedError(RedriveError):
    """The idempotency key belongs to another request. This request was not executed."""


class DriftError(RedriveError):
    """The data changed after it was planned or counted. Nothing was done.

    `changes` lists the first differences (redrive.model.operation.Drift). `number` is the total number of
    differences, or the number of matches if another number was expected.
    """

    def __init__(self, message: str, *, changes: Sequence[Any] = (), number: int = 0) -> None:
        super().__init__(message)
        self.changes = tuple(changes)
        self.number = number


class NumberDriftError(DriftError):
    """The number of matches is not the expected one. Nothing was done. `number` is how many match now."""


class ReplayRefusedError(RedriveError):
    """A replay is not possible in the current state. The message says why, and what to do first."""


class QueueFullError(RedriveError):
    """The dead-letter queue already holds `max_size` live dead letters. Nothing was stored or evicted."""

    def __init__(self, message: str, *, max_size: int) -> None:
        super().__init__(message)
        self.max_size = max_size


class LeaseLostError(RedriveError):
    """Another worker has taken over the step. The result of this worker was discarded."""


class RunFailedError(RedriveError):
    """The awaited run did not succeed; `state` is its final state."""

    def __init__(self, message: str, *, run_id: str, state: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.state = state


class RunCancelledError(RedriveError):
    """Raised inside a task whose run was cancelled."""


class StoreError(RedriveError):
    """A database operation failed."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached or written to right now. Retrying may help."""


class DuplicateRowError(StoreError):
    """The table already has a row with the same key."""


class StatementTimeoutError(StoreError):
    """A query was stopped because it took longer than `seconds`. It wrote nothing."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class SchemaError(StoreError):
    """The tables belong to another version of Redrive than this program."""


class IsolationError(StoreError):
    """PostgreSQL lacks the role that isolates organizations. An administrator can run `statements`."""

    def __init__(self, message: str, *, statements: Sequence[str]) -> None:
        super().__init__(message)
        self.statements = tuple(statements)


class TransitionError(RedriveError):
    """The transition table does not allow this change of state."""


class LastOwnerError(TransitionError):
    """An organization must keep at least one owner. Make another member an owner first."""


class VerdictError(RedriveError):
    """Base class of errors with which your code classifies a failure.

    `retry_after` takes seconds or a timedelta.
    """

    def __init__(self, message: str = "", *, retry_after: Seconds | None = None) -> None:
        super().__init__(message)
        self.retry_after = None if retry_after is None else _seconds(retry_after)


class FinalError(VerdictError):
    """Retrying won't help: the failure is permanent."""


class RecordedFailureError(FinalError):
    """The request with this idempotency key already failed permanently and was not executed again.

    `error_type` and `error_message` describe that failure, redacted.
    """

    def __init__(self, message: str, *, error_type: str = "", error_message: str = "") -> None:
        super().__init__(message)
        self.error_type = error_type
        self.error_message = error_message


class InvalidEntryError(FinalError):
    """An entry of a stream is not an event, or belongs to an organization that the stream does not serve."""


class RetryableError(VerdictError):
    """Retrying may help: the failure is temporary."""


class RateLimitedError(VerdictError):
    """Retrying will help after a delay: `retry_after` seconds, if the server gave a time."""


class UnavailableError(RedriveError):
    """The dependency was not called, so there can be no side effect."""

    def __init__(self, dependency: str, message: str, *, retry_after: Seconds | None = None) -> None:
        super().__init__(message)
        self.dependency = dependency
        self.retry_after = None if retry_after is None else _seconds(retry_after)


class BreakerOpenError(UnavailableError):
    """The circuit breaker of the dependency is open, or is half-open with all probe slots in use."""


class SealedError(NotStorableError, UnavailableError):
    """A stored value is encrypted with a key that is not configured here: `key_id`.

    The worker releases work that needs this value, so that a worker with the key can execute it.
    """

    def __init__(self, message: str, *, key_id: str) -> None:
        UnavailableError.__init__(self, "encryption key", message)
        self.key_id = key_id


class DeferredError(RedriveError):
    """The next attempt is due in `retry_after` seconds, which is too long to wait for.

    `__cause__` is the failure that led to the wait.
    """

    def __init__(self, message: str, *, retry_after: Seconds) -> None:
        super().__init__(message)
        self.retry_after = _seconds(retry_after)


class InProgressError(DeferredError):
    """Another process is executing the request with this idempotency key.

    Check again in `retry_after` seconds.
    """


class AttemptTimeoutError(RedriveError, TimeoutError):
    """An attempt exceeded its time limit."""


class ProcessDiedError(RedriveError):
    """The process of an attempt exited without a result: it crashed or was killed."""


class HttpError(RedriveError):
    """An HTTP request got no usable response."""


class HttpStatusError(HttpError):
    """The server responded with an error status. `body` is the start of the response body, redacted."""

    def __init__(
        self, message: str, *, status: int, headers: dict[str, str] | None = None, body: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body = body


class HttpContentError(HttpError):
    """The response is not valid JSON, or does not have the expected shape."""
