"""An attempt: one execution of a step."""

from __future__ import annotations

from enum import StrEnum

from redrive.model.decision import Reason
from redrive.model.failure import Category, ErrorClass
from redrive.model.field import Instant
from redrive.model.row import Row


class AttemptOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"
    CANCELLED = "cancelled"


class AttemptRecord(Row, frozen=True, kw_only=True):
    """An attempt as it is remembered. `delay` is the wait that was decided on afterwards, in seconds."""

    run_id: str
    step_index: int
    number: int
    outcome: AttemptOutcome
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None = None
    reason: Reason
    explanation: str
    delay: float | None = None
    category: Category | None = None
    error_class: ErrorClass | None = None
    error_type: str | None = None
    message: str | None = None
    stack: str | None = None
    http_status: int | None = None
    public_code: str | None = None
    public_message: str | None = None
    replay: int = 0
    output: str | None = None
