"""A failed task, as those see it who use nothing but the dead-letter queue (M2)."""

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


class RetryOutcome(NamedTuple):
    """True or false: did it succeed? `result` is what your function gave, `error` what it said otherwise."""

    success: bool
    error: str | None
    result: Any
    item: FailedTask

    def __bool__(self) -> bool:
        return self.success
