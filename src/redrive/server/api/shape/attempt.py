"""Attempts, as answers have them."""

from __future__ import annotations

from typing import Any

from redrive.model.attempt import AttemptOutcome
from redrive.server.api.shape.base import Moment, Shown


class AttemptShape(Shown):
    """One execution of a step, redacted. `delay` is the wait that was decided on after it, in seconds;
    `replay` counts the replays before it."""

    step_index: int
    step: str
    number: int
    replay: int
    outcome: AttemptOutcome
    worker: str | None
    code_version: str | None
    started_at: Moment | None
    ended_at: Moment | None
    reason: str
    explanation: str
    delay: float | None
    category: str | None
    error_class: str | None
    error_type: str | None
    message: str | None
    stack: str | None
    http_status: int | None
    public_code: str | None
    public_message: str | None
    output: Any


class AttemptList(Shown):
    items: list[AttemptShape]
    next_cursor: str | None
