"""A run as lists show it: without anything that it was given, or has given."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.field import Instant, JsonList


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
    submitted_at: Instant
    due_at: Instant | None
    held_by: str | None
    attempt: int
    failures: int
    error_class: str | None
    first_failed_at: Instant | None
    last_failed_at: Instant | None
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    attempt_started_at: Instant | None
    ended_at: Instant | None
    idempotency_key: str | None
    correlation_id: str
    tags: JsonList | None
    cancel_requested_at: Instant | None
    replays: int
    redrives: int
