"""An attempt: one execution of a step."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from redrive.model.field import Instant


class AttemptOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"
    CANCELLED = "cancelled"


class AttemptRecord(NamedTuple):
    """An attempt as it is remembered. `delay` is the wait that was decided on afterwards, in seconds."""

    step_index: int
    number: int
    outcome: str
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None
    reason: str
    explanation: str
    delay: float | None = None
    category: str | None = None
    error_class: str | None = None
    error_type: str | None = None
    message: str | None = None
    stack: str | None = None
    http_status: int | None = None
    public_code: str | None = None
    public_message: str | None = None
    replay: int = 0
    output: str | None = None
