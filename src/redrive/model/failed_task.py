"""Failed tasks from other systems, as stored and as a stand-alone dead-letter queue returns them."""

from __future__ import annotations

from typing import Any, NamedTuple


class FailedTask(NamedTuple):
    """A failed task and its current status. Instants are seconds since 1970.

    error        the error with which it was added; `last_error` is the latest one
    retry_count  automatic redrives so far
    status       pending, retrying, exhausted, completed, discarded or archived
    id           the id of its dead letter
    """

    task_id: str
    task: Any
    context: Any
    error: str
    error_category: str
    retry_policy: str
    retry_count: int
    max_retries: int
    next_retry_at: float | None
    status: str
    failed_at: float
    total_attempts: int
    last_error: str
    metadata: dict[str, Any]
    priority: int
    updated_at: float
    id: str
    run_id: str


MAX_TASK_ID_LENGTH = 255
_MAX_NUMBER_LENGTH = len("~99999")


class NewFailedTask(NamedTuple):
    """A failed task to store as a run. `correlation_id` is the caller's id of the task, and ends the key.

    attempt  the number of its last attempt
    """

    id: str
    org: str
    workflow: str
    definition: str
    queue: str
    priority: int
    input: str
    key: str
    request_hash: str
    correlation_id: str
    tags: str | None
    metadata: str | None
    token: int
    worker: str
    code_version: str
    attempt: int = 1

    @property
    def numbered_key(self) -> str:
        """The key without its number, if the task is stored beside another task with the same id."""
        task_id = self.correlation_id[: MAX_TASK_ID_LENGTH - _MAX_NUMBER_LENGTH]
        return f"{self._prefix}{task_id}~"

    def under(self, key: str) -> NewFailedTask:
        """The same task under another key of the same queue."""
        return self._replace(key=key, correlation_id=key.removeprefix(self._prefix))

    @property
    def _prefix(self) -> str:
        return self.key.removesuffix(self.correlation_id)


class FailedTaskRow(NamedTuple):
    """A stored failed task: its dead letter, with the input of its run.

    first_message  the message of the first failure; `message` is the latest
    waits          1 if another dead letter must be resolved first
    """

    letter_id: str
    run_id: str
    task_id: str
    input: str
    metadata: str | None
    state: str
    category: str
    error_type: str
    message: str
    first_message: str | None
    redrive: str
    redrives: int
    max_redrives: int
    next_redrive_at: float | None
    created_at: float
    updated_at: float
    attempts: int
    priority: int
    waits: int


class RetryOutcome(NamedTuple):
    """The outcome of a retry; true if it succeeded.

    `result` is what your function returned, `error` the error message if it failed.
    """

    success: bool
    error: str | None
    result: Any
    item: FailedTask

    def __bool__(self) -> bool:
        return self.success
