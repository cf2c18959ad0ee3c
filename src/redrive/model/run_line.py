"""A run as lists show it: without anything that it was given, or has given."""

from __future__ import annotations

from typing import NamedTuple


class RunLine(NamedTuple):
    id: str
    workflow: str
    definition: str
    queue: str
    priority: int
    state: str
    place: str
    step_index: int
    step_state: str
    submitted_at: float
    due_at: float | None
    held_by: str | None
    attempt: int
    failures: int
    error_class: str | None
    first_failed_at: float | None
    last_failed_at: float | None
    worker: str | None
    code_version: str | None
    started_at: float | None
    attempt_started_at: float | None
    ended_at: float | None
    idempotency_key: str | None
    correlation_id: str
    tags: str | None
    cancel_requested_at: float | None
    replays: int
    redrives: int
