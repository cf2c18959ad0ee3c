"""The audit log: who did what to which objects, as one hash chain per org; and the stream of changes.

Entries never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError
from redrive.model.field import Instant


class Action(StrEnum):
    DEAD_LETTER_MOVED = "dead_letter.moved"
    DEAD_LETTER_RESOLVED = "dead_letter.resolved"
    DEAD_LETTER_IGNORED = "dead_letter.ignored"
    DEAD_LETTER_ARCHIVED = "dead_letter.archived"
    DEAD_LETTER_EXHAUSTED = "dead_letter.exhausted"
    DEAD_LETTER_REOPENED = "dead_letter.reopened"
    DEAD_LETTER_NOTED = "dead_letter.noted"
    DEAD_LETTER_TAGGED = "dead_letter.tagged"
    DEAD_LETTER_ASSIGNED = "dead_letter.assigned"
    DEAD_LETTER_REVEALED = "dead_letter.revealed"
    DEAD_LETTER_LINKED = "dead_letter.linked"
    REPLAY_REQUESTED = "replay.requested"
    REPLAY_SUCCEEDED = "replay.succeeded"
    REPLAY_FAILED = "replay.failed"
    REPLAY_CANCELLED = "replay.cancelled"
    OPERATION_PLANNED = "operation.planned"
    OPERATION_STARTED = "operation.started"
    OPERATION_PAUSED = "operation.paused"
    OPERATION_RESUMED = "operation.resumed"
    OPERATION_CANCELLED = "operation.cancelled"
    OPERATION_STOPPED = "operation.stopped"
    OPERATION_FINISHED = "operation.finished"
    GROUP_ACKNOWLEDGED = "group.acknowledged"
    GROUP_RESOLVED = "group.resolved"
    GROUP_IGNORED = "group.ignored"
    GROUP_REOPENED = "group.reopened"
    GROUP_REGRESSED = "group.regressed"
    RUN_RETRIED = "run.retried"
    RUN_CANCELLED = "run.cancelled"
    QUEUE_PAUSED = "queue.paused"
    QUEUE_RESUMED = "queue.resumed"
    QUEUE_CLEARED = "queue.cleared"
    QUEUE_STRATEGY_CHANGED = "queue.strategy_changed"
    ORGANIZATION_STRATEGY_CHANGED = "organization.strategy_changed"
    BREAKER_FORCED = "breaker.forced"
    BREAKER_RELEASED = "breaker.released"
    STREAM_PAUSED = "stream.paused"
    STREAM_RESUMED = "stream.resumed"
    EVENT_REPLAYED = "event.replayed"
    REBUILD_STARTED = "rebuild.started"
    REBUILD_PAUSED = "rebuild.paused"
    REBUILD_RESUMED = "rebuild.resumed"
    REBUILD_CANCELLED = "rebuild.cancelled"
    REBUILD_STOPPED = "rebuild.stopped"
    REBUILD_FINISHED = "rebuild.finished"
    SAVED_VIEW_CREATED = "saved_view.created"
    SAVED_VIEW_REMOVED = "saved_view.removed"
    KEYS_ROTATED = "keys.rotated"
    ORGANIZATION_CREATED = "organization.created"
    MEMBER_ADDED = "member.added"
    MEMBER_CHANGED = "member.changed"
    MEMBER_REMOVED = "member.removed"
    MEMBER_LINKED = "member.linked"
    USER_DISABLED = "user.disabled"
    USER_ENABLED = "user.enabled"
    USER_PASSWORD_CHANGED = "user.password_changed"  # noqa: S105 — the name of it
    KEY_CREATED = "key.created"
    KEY_ROTATED = "key.rotated"
    KEY_REVOKED = "key.revoked"
    SESSION_STARTED = "session.started"
    SESSION_ENTERED = "session.entered"
    SESSION_ENDED = "session.ended"


class NewEntry(NamedTuple):
    """An entry to append. `subjects` are the ids of the changed objects; `detail` is already redacted."""

    org: str
    actor: str
    action: Action
    subjects: tuple[str, ...] = ()
    detail: Mapping[str, Any] = {}


class Entry(NamedTuple):
    """A stored entry.

    subject   the id of the changed object, if there is exactly one; otherwise empty
    subjects  a JSON list of the ids, if there are several
    detail    a JSON object
    hash      covers all other fields and the previous entry's hash
    """

    org: str
    sequence: int
    at: Instant
    actor: str
    action: str
    subject: str
    subjects: str | None
    detail: str
    hash: str


class Head(NamedTuple):
    """The end of an org's chain. A copy stored elsewhere can later prove that the chain is unchanged."""

    org: str
    sequence: int
    hash: str

    def __str__(self) -> str:
        """The head as text; `Head.parse` reads it back."""
        return f"{self.sequence}:{self.hash}:{self.org}"

    @classmethod
    def parse(cls, text: str) -> Head:
        sequence, _, rest = text.strip().partition(":")
        hash_, _, org = rest.partition(":")
        if not sequence.isdecimal() or not sequence.isascii() or len(sequence) > 18 or not org:
            raise InvalidValueError(f"an audit head looks like 7:a63f…:acme, got {text!r:.100}")
        return cls(org, int(sequence), hash_)


class ChangeKind(StrEnum):
    """`RESET`: the watcher missed too much and must reload everything. `BEAT`: nothing has changed."""

    ENTRY = "entry"
    COUNTERS = "counters"
    RESET = "reset"
    BEAT = "beat"


class Counters(NamedTuple):
    """Dead letters by state, and the states of all breakers by name."""

    dead_letters: Mapping[str, int]
    breakers: Mapping[str, str]


class Change(NamedTuple):
    """A change to an org's data as watchers receive it: ids, actions and counts only.

    A watcher resumes after `sequence`. `subjects` holds the first 100 of `number` ids.
    """

    kind: ChangeKind
    sequence: int
    at: float
    action: str | None = None
    subjects: tuple[str, ...] = ()
    number: int = 0
    counters: Counters | None = None
