"""Failed tasks of other systems, as they are stored and as a stand-alone dead-letter queue shows them."""

from __future__ import annotations

from typing import Any, NamedTuple


class FailedTask(NamedTuple):
    """What was put in, and what has become of it. Instants are seconds since 1970.

    error        what was said when it came in; last_error what was said last
    retry_count  automatic redrives so far
    status       pending, retrying, exhausted, completed, discarded or archived
    id           that of its dead letter
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


class NewFailedTask(NamedTuple):
    """A failed task to be stored as a run. `correlation_id` is the id that the caller gave to the task."""

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


class FailedTaskRow(NamedTuple):
    """A failed task as it is stored: its dead letter, with the input of its run.

    first_message  the message of the first failure, `message` that of the newest
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


class RetryOutcome(NamedTuple):
    """True or false: did it succeed? `result` is what your function gave, `error` what it said otherwise."""

    success: bool
    error: str | None
    result: Any
    item: FailedTask

    def __bool__(self) -> bool:
        return self.success
