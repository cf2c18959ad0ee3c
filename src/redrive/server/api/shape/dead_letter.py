"""Dead letters, as answers have them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure import Category, ErrorClass
from redrive.model.step import Effect
from redrive.server.api.shape.base import Moment, Shown


class DeadLetterLineShape(Shown):
    """As lists show it; `message` is its beginning. `version` is its ETag."""

    id: str
    version: str
    run_id: str
    step_index: int
    step: str
    task: str
    workflow: str
    queue: str
    state: DeadLetterState
    category: Category
    error_class: ErrorClass
    error_type: str
    message: str
    http_status: int | None
    public_code: str
    reason: str
    fingerprint: str
    title: str
    attempts: int
    failures: int
    first_failed_at: Moment | None
    last_failed_at: Moment | None
    correlation_id: str
    tags: list[str]
    created_at: Moment
    updated_at: Moment
    replay_count: int
    last_replayed_at: Moment | None
    resolved_by: str | None
    resolved_at: Moment | None
    effect: Effect
    may_have_executed: bool
    breaker: str | None
    code_version: str
    priority: int
    assignee: str | None
    template: str | None
    runbook: str | None
    redrive: str
    redrives: int
    max_redrives: int
    next_redrive_at: Moment | None
    exhausted_at: Moment | None


class DeadLetterPage(Shown):
    items: list[DeadLetterLineShape]
    next_cursor: str | None


class DeadLetterShape(DeadLetterLineShape):
    """The whole story, redacted; its payload and config are apart (W8)."""

    org: str
    stack: str
    public_message: str
    explanation: str
    fingerprint_reason: str
    policy: Any = Field(description="The retry policy that it failed under")
    idempotency_key: str
    metadata: Any
    last_replayed_by: str | None
    replay_override: Any
    resolution: str | None
    redrive_policy: Any


class PayloadShape(Shown):
    """What the failed step was given, and its config, redacted before they were stored (W14)."""

    payload: Any
    config: Any


class RevealedShape(Shown):
    """The payload with its secrets."""

    payload: Any


class CountShape(Shown):
    """`capped`: there are more than that."""

    number: int
    capped: bool


class NoteShape(Shown):
    id: str
    at: Moment
    author: str
    text: str


class NoteList(Shown):
    items: list[NoteShape]
    next_cursor: str | None


class VerdictShape(Shown):
    """Why it stopped, what has changed since, and whether a replay is likely to help."""

    why: str
    changed: list[str]
    advice: str
    likely: Literal["likely", "unlikely", "unknown"]
    heals_itself: bool
