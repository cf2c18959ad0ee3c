"""A dead letter: failed work kept for triage."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol

from redrive.model.decision import NO_FACTS, Reason, StoredDecision
from redrive.model.fact import StoredFact
from redrive.model.failure import Category, ErrorClass
from redrive.model.field import Instant, Json, JsonList, RunId
from redrive.model.row import Row
from redrive.model.step import Effect
from redrive.model.transition import TransitionTable, moves


class DeadLetterState(StrEnum):
    OPEN = "OPEN"
    REPLAYING = "REPLAYING"
    EXHAUSTED = "EXHAUSTED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"
    ARCHIVED = "ARCHIVED"


class Prospect(StrEnum):
    """Whether a redrive of an open dead letter is scheduled, and doesn't wait for a STUCK one."""

    SCHEDULED = "SCHEDULED"
    UNSCHEDULED = "UNSCHEDULED"


LIVE = (DeadLetterState.OPEN, DeadLetterState.REPLAYING, DeadLetterState.EXHAUSTED)
CLOSED = (DeadLetterState.RESOLVED, DeadLetterState.IGNORED, DeadLetterState.ARCHIVED)
ACTIONABLE = (DeadLetterState.OPEN, DeadLetterState.EXHAUSTED)
"""The states in which a dead letter can be replayed or closed."""
STUCK = (DeadLetterState.EXHAUSTED, DeadLetterState.IGNORED, DeadLetterState.ARCHIVED)
"""The states that no automatic redrive ends. What waits for such a dead letter waits until a person acts."""
NEEDS_YOU = (Prospect.UNSCHEDULED, DeadLetterState.EXHAUSTED)
"""These dead letters need a person; all other live dead letters are redriven automatically."""
HEALS_ITSELF = (Prospect.SCHEDULED, DeadLetterState.REPLAYING)


class Changeable(Protocol):
    """The fields that show whether a dead letter has changed.

    Assigning and tagging do not change `updated_at`: it belongs to the failure and its state, and planned
    replays depend on it.
    """

    @property
    def state(self) -> str: ...
    @property
    def updated_at(self) -> float: ...
    @property
    def assignee(self) -> str | None: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def replay_count(self) -> int: ...


def version_of(letter: Changeable) -> str:
    """A version of the dead letter that changes with every change to it."""
    content = (str(letter.state), letter.updated_at, letter.replay_count, letter.assignee, list(letter.tags))
    return sha256(repr(content).encode(errors="replace")).hexdigest()[:16]


class DeadLetterLine(Row, frozen=True, kw_only=True):
    """A dead letter in a list: without payload, stack, config and policy.

    The database sets the fields with a default when it stores the dead letter. Lists contain only the start
    of `message`. `waits` tells whether its automatic redrive waits for that of another dead letter; it then
    has no `next_redrive_at`.
    """

    id: str
    run_id: RunId
    step_index: int = 0
    step: str
    task: str
    workflow: str
    queue: str = ""
    state: DeadLetterState = DeadLetterState.OPEN
    category: Category
    error_class: ErrorClass
    error_type: str
    http_status: int | None = None
    public_code: str
    reason: Reason
    fingerprint: str
    title: str
    attempts: int = 0
    failures: int = 0
    first_failed_at: Instant | None = None
    last_failed_at: Instant | None = None
    correlation_id: str
    tags: JsonList = ()
    created_at: Instant = 0.0
    updated_at: Instant = 0.0
    replay_count: int = 0
    last_replayed_at: Instant | None = None
    resolved_by: str | None = None
    resolved_at: Instant | None = None
    effect: Effect = Effect.IDEMPOTENT
    may_have_executed: bool = True
    breaker: str | None = None
    code_version: str = ""
    priority: int = 0
    assignee: str | None = None
    template: str | None = None
    runbook: str | None = None
    redrive: str = "never"
    redrives: int = 0
    max_redrives: int = 0
    next_redrive_at: Instant | None = None
    exhausted_at: Instant | None = None
    waits: bool = False
    message: str


class DeadLetter(DeadLetterLine, frozen=True, kw_only=True):
    """A failed step with its full context. Payload, config and texts are redacted.

    policy              the retry policy under which it failed
    decision            why it was not retried
    fingerprint_reason  why it belongs to its failure group
    """

    org: str
    stack: str
    public_message: str
    decision: StoredDecision = NO_FACTS
    fingerprint_reason: StoredFact
    payload: Json
    config: Json
    policy: Json
    idempotency_key: str
    metadata: Json = None
    last_replayed_by: str | None = None
    replay_override: Json = None
    resolution: str | None = None
    redrive_policy: Json = None


class Related(NamedTuple):
    """Related dead letters: of the same run, of other runs with its correlation id, of the same failure."""

    same_run: tuple[DeadLetterLine, ...] = ()
    same_correlation: tuple[DeadLetterLine, ...] = ()
    same_failure: tuple[DeadLetterLine, ...] = ()


class Note(NamedTuple):
    """A comment on a dead letter."""

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
