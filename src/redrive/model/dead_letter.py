"""A dead letter: failed work kept for triage."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol

from redrive.model.field import Instant, JsonList, JsonText
from redrive.model.transition import TransitionTable, moves


class DeadLetterState(StrEnum):
    OPEN = "OPEN"
    REPLAYING = "REPLAYING"
    EXHAUSTED = "EXHAUSTED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"
    ARCHIVED = "ARCHIVED"


class Prospect(StrEnum):
    """What is to become of an open letter that nobody sees to: an automatic redrive will come, or none."""

    SCHEDULED = "SCHEDULED"
    UNSCHEDULED = "UNSCHEDULED"


LIVE = (DeadLetterState.OPEN, DeadLetterState.REPLAYING, DeadLetterState.EXHAUSTED)
CLOSED = (DeadLetterState.RESOLVED, DeadLetterState.IGNORED, DeadLetterState.ARCHIVED)
NEEDS_YOU = (Prospect.UNSCHEDULED, DeadLetterState.EXHAUSTED)
"""They stay as they are until somebody sees to them; the rest of the live ones heal by themselves."""
HEALS_ITSELF = (Prospect.SCHEDULED, DeadLetterState.REPLAYING)


class Changeable(Protocol):
    """What tells whether a dead letter has changed. People who assign and tag leave `updated_at` as it is:
    it is that of the failure and its state, and plans of replays go by it."""

    @property
    def state(self) -> str: ...
    @property
    def updated_at(self) -> float: ...
    @property
    def assignee(self) -> str | None: ...
    @property
    def tags(self) -> str | None: ...
    @property
    def replay_count(self) -> int: ...


def version_of(letter: Changeable) -> str:
    """Equal as long as nobody has changed it."""
    content = (letter.state, letter.updated_at, letter.replay_count, letter.assignee, letter.tags)
    return sha256(repr(content).encode(errors="replace")).hexdigest()[:16]


class DeadLetter(NamedTuple):
    """A failed step with its whole story. Payload, config and texts are redacted.

    policy  the retry policy that it failed under
    """

    id: str
    org: str
    run_id: str
    step_index: int
    step: str
    task: str
    workflow: str
    queue: str
    state: str
    category: str
    error_class: str
    error_type: str
    message: str
    stack: str
    http_status: int | None
    public_code: str
    public_message: str
    reason: str
    explanation: str
    fingerprint: str
    fingerprint_reason: str
    title: str
    attempts: int
    failures: int
    first_failed_at: Instant | None
    last_failed_at: Instant | None
    payload: JsonText
    config: JsonText
    policy: JsonText
    idempotency_key: str
    correlation_id: str
    tags: JsonList | None
    metadata: JsonText | None
    created_at: Instant
    updated_at: Instant
    replay_count: int
    last_replayed_at: Instant | None
    last_replayed_by: str | None
    replay_override: JsonText | None
    resolved_by: str | None
    resolved_at: Instant | None
    resolution: str | None
    effect: str
    may_have_executed: int
    breaker: str | None
    code_version: str
    priority: int
    assignee: str | None
    template: str | None
    runbook: str | None
    redrive: str
    redrive_policy: JsonText | None
    redrives: int
    max_redrives: int
    next_redrive_at: Instant | None
    exhausted_at: Instant | None


class DeadLetterLine(NamedTuple):
    """A dead letter as lists show it, without payload, stack, config, policy; `message` is its beginning."""

    id: str
    run_id: str
    step_index: int
    step: str
    task: str
    workflow: str
    queue: str
    state: str
    category: str
    error_class: str
    error_type: str
    message: str
    http_status: int | None
    public_code: str
    reason: str
    fingerprint: str
    title: str
    attempts: int
    failures: int
    first_failed_at: Instant | None
    last_failed_at: Instant | None
    correlation_id: str
    tags: JsonList | None
    created_at: Instant
    updated_at: Instant
    replay_count: int
    last_replayed_at: Instant | None
    resolved_by: str | None
    resolved_at: Instant | None
    effect: str
    may_have_executed: int
    breaker: str | None
    code_version: str
    priority: int
    assignee: str | None
    template: str | None
    runbook: str | None
    redrive: str
    redrives: int
    max_redrives: int
    next_redrive_at: Instant | None
    exhausted_at: Instant | None


class Related(NamedTuple):
    """Other dead letters: of the same run, of other runs with its correlation id, of the same failure."""

    same_run: tuple[DeadLetterLine, ...] = ()
    same_correlation: tuple[DeadLetterLine, ...] = ()
    same_failure: tuple[DeadLetterLine, ...] = ()


class Note(NamedTuple):
    """What somebody has written about a dead letter."""

    id: str
    at: Instant
    author: str
    body: str


_O, _RE, _EX = DeadLetterState.OPEN, DeadLetterState.REPLAYING, DeadLetterState.EXHAUSTED

DEAD_LETTER_TRANSITIONS = TransitionTable(
    "dead letter",
    _O,
    [
        *moves("replay started", [_O, _EX], [_RE]),
        *moves("replay succeeded", [_RE], [DeadLetterState.RESOLVED]),
        *moves("replay failed", [_RE], [_O]),
        *moves("automatic redrives used up", [_RE], [_EX]),
        *moves("the run was cancelled", [_RE], [DeadLetterState.IGNORED]),
        *moves("resolved by a person", [_O, _EX], [DeadLetterState.RESOLVED]),
        *moves("ignored by a person", [_O, _EX], [DeadLetterState.IGNORED]),
        *moves("archived", [_O, _EX], [DeadLetterState.ARCHIVED]),
        *moves("reopened", CLOSED, [_O]),
    ],
)
