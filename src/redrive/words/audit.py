"""The audit for people: a sentence for each action, and one line for all entries of a bulk replay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from redrive.model.audit import Action
from redrive.model.caller import SELF
from redrive.words.folds import Fold, fold
from redrive.words.number import plural
from redrive.words.replay import MODES
from redrive.words.state import LABELS, status


class EntryFields(Protocol):
    """An entry of the audit, as the service or the API returns it."""

    @property
    def actor(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def subjects(self) -> Sequence[str]: ...
    @property
    def detail(self) -> Mapping[str, Any]: ...


E = TypeVar("E", bound=EntryFields)


class AuditLine(NamedTuple):
    """What a line of the audit says.

    actor      the person or key that acted; "redrive" if Redrive acted by itself
    operation  the id of the bulk replay; None if the line is about something else
    """

    actor: str
    text: str
    operation: str | None


_LETTER, _OPERATION, _GROUP, _RUN = "dead letter", "bulk replay", "failure group", "run"
_STREAM, _EVENT, _REBUILD = "stream", "event", "rebuild"
_QUEUE, _BREAKER, _MEMBER, _USER = "queue", "breaker", "member", "user"
_SENTENCES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        Action.DEAD_LETTER_MOVED: ("Created {}", _LETTER),
        Action.DEAD_LETTER_RESOLVED: ("Resolved {}", _LETTER),
        Action.DEAD_LETTER_IGNORED: ("Ignored {}", _LETTER),
        Action.DEAD_LETTER_ARCHIVED: ("Archived {}", _LETTER),
        Action.DEAD_LETTER_EXHAUSTED: ("Used up the automatic redrives of {}", _LETTER),
        Action.DEAD_LETTER_REOPENED: ("Reopened {}", _LETTER),
        Action.DEAD_LETTER_NOTED: ("Wrote a note on {}", _LETTER),
        Action.DEAD_LETTER_TAGGED: ("Changed the tags of {}", _LETTER),
        Action.DEAD_LETTER_ASSIGNED: ("Assigned {}", _LETTER),
        Action.DEAD_LETTER_REVEALED: ("Revealed the payload of {}", _LETTER),
        Action.DEAD_LETTER_LINKED: ("Changed the dependencies of {}", _LETTER),
        Action.REPLAY_REQUESTED: ("Replayed {}", _LETTER),
        Action.REPLAY_SUCCEEDED: ("Replay of {} succeeded", _LETTER),
        Action.REPLAY_FAILED: ("Replay of {} failed", _LETTER),
        Action.REPLAY_CANCELLED: ("Replay of {} was cancelled", _LETTER),
        Action.OPERATION_PLANNED: ("Planned {}", _OPERATION),
        Action.OPERATION_STARTED: ("Started {}", _OPERATION),
        Action.OPERATION_PAUSED: ("Paused {}", _OPERATION),
        Action.OPERATION_RESUMED: ("Resumed {}", _OPERATION),
        Action.OPERATION_CANCELLED: ("Cancelled {}", _OPERATION),
        Action.OPERATION_STOPPED: ("Stopped {} automatically", _OPERATION),
        Action.OPERATION_FINISHED: ("Finished {}", _OPERATION),
        Action.GROUP_ACKNOWLEDGED: ("Acknowledged {}", _GROUP),
        Action.GROUP_RESOLVED: ("Resolved {}", _GROUP),
        Action.GROUP_IGNORED: ("Ignored {}", _GROUP),
        Action.GROUP_REOPENED: ("Reopened {}", _GROUP),
        Action.GROUP_REGRESSED: ("Reopened {} that had been resolved", _GROUP),
        Action.RUN_RETRIED: ("Retried {}", _RUN),
        Action.RUN_CANCELLED: ("Cancelled {}", _RUN),
        Action.STREAM_PAUSED: ("Paused {}", _STREAM),
        Action.STREAM_RESUMED: ("Resumed {}", _STREAM),
        Action.EVENT_REPLAYED: ("Replayed {}", _EVENT),
        Action.REBUILD_STARTED: ("Started {}", _REBUILD),
        Action.REBUILD_PAUSED: ("Paused {}", _REBUILD),
        Action.REBUILD_RESUMED: ("Resumed {}", _REBUILD),
        Action.REBUILD_CANCELLED: ("Cancelled {}", _REBUILD),
        Action.REBUILD_STOPPED: ("Stopped {} automatically", _REBUILD),
        Action.REBUILD_FINISHED: ("Finished {}", _REBUILD),
        Action.QUEUE_PAUSED: ("Paused {}", _QUEUE),
        Action.QUEUE_RESUMED: ("Resumed {}", _QUEUE),
        Action.QUEUE_CLEARED: ("Removed the dead letters of {}", _QUEUE),
        Action.QUEUE_STRATEGY_CHANGED: ("Changed which failures of {} become dead letters", _QUEUE),
        Action.ORGANIZATION_STRATEGY_CHANGED: ("Changed which failures become dead letters", ""),
        Action.BREAKER_FORCED: ("Forced {} into a state", _BREAKER),
        Action.BREAKER_RELEASED: ("Returned {} to automatic control", _BREAKER),
        Action.SAVED_VIEW_CREATED: ("Saved {}", "view"),
        Action.SAVED_VIEW_REMOVED: ("Removed {}", "saved view"),
        Action.KEYS_ROTATED: ("Rotated the encryption keys", ""),
        Action.ORGANIZATION_CREATED: ("Created {}", "organization"),
        Action.MEMBER_ADDED: ("Added {}", _MEMBER),
        Action.MEMBER_CHANGED: ("Changed {}", _MEMBER),
        Action.MEMBER_REMOVED: ("Removed {}", _MEMBER),
        Action.MEMBER_LINKED: ("Linked {} to an identity provider", _MEMBER),
        Action.USER_DISABLED: ("Disabled {}", _USER),
        Action.USER_ENABLED: ("Enabled {}", _USER),
        Action.USER_PASSWORD_CHANGED: ("Changed the password of {}", _USER),
        Action.KEY_CREATED: ("Created {}", "API key"),
        Action.KEY_ROTATED: ("Rotated {}", "API key"),
        Action.KEY_REVOKED: ("Revoked {}", "API key"),
        Action.SESSION_STARTED: ("Signed in", ""),
        Action.SESSION_ENTERED: ("Switched to this organization", ""),
        Action.SESSION_ENDED: ("Signed out", ""),
    }
)
_PROGRESS = (
    (Action.REPLAY_REQUESTED, "{} replayed"),
    (Action.REPLAY_SUCCEEDED, "{} succeeded"),
    (Action.REPLAY_FAILED, "{} failed"),
    (Action.REPLAY_CANCELLED, "{} cancelled"),
)
_STEPS = {
    Action.OPERATION_PLANNED: "planned",
    Action.OPERATION_STARTED: "started",
    Action.OPERATION_PAUSED: "paused",
    Action.OPERATION_RESUMED: "resumed",
    Action.OPERATION_CANCELLED: "cancelled",
    Action.OPERATION_STOPPED: "stopped automatically",
    Action.OPERATION_FINISHED: "finished",
}
_OF_REPLAYS = frozenset(
    {
        Action.REPLAY_SUCCEEDED,
        Action.REPLAY_FAILED,
        Action.REPLAY_CANCELLED,
        Action.DEAD_LETTER_RESOLVED,
        Action.DEAD_LETTER_MOVED,
    }
)
"""Actions that Redrive records about dead letters that are being replayed."""


def describe_entry(entry: EntryFields) -> str:
    """Say what was done: "Resolved 3 dead letters". An action of a newer version keeps its name."""
    if entry.action == Action.REPLAY_REQUESTED and entry.detail.get("automatic"):
        text, noun = "Redrove {} automatically", _LETTER
    elif entry.action == Action.DEAD_LETTER_ASSIGNED and not entry.detail.get("assignee"):
        text, noun = "Unassigned {}", _LETTER
    elif entry.action in _SENTENCES:
        text, noun = _SENTENCES[entry.action]
    else:
        return entry.action.replace("_", " ").replace(".", ": ")
    number = len(entry.subjects)
    return text.format(plural(number, noun) if number > 1 else _one(noun))


def describe_detail(name: str, value: Any) -> tuple[str, str]:
    """Write a value of an entry, and its name. Steps are stored from 0 and shown from 1."""
    if name == "from_step" and isinstance(value, int):
        return "step", str(value + 1)
    return name.replace("_", " "), _value(name, value)


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, dict) and value and all(state in LABELS for state in value):
        return ", ".join(f"{number} {status(state)}" for state, number in value.items())
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if name == "mode" and value in MODES:
        return MODES[value][0].lower()
    return status(value) if value in LABELS else value


def describe_fold(entries: Fold[E], operation: str | None) -> AuditLine:
    """Describe one entry, or all entries of a bulk replay, newest first."""
    first = entries.first
    if operation is None:
        return AuditLine(first.actor, describe_entry(first), None)
    people = [entry.actor for entry in entries.rows if entry.actor != SELF]
    replayed = Counter[str]()
    for entry in entries.rows:
        replayed[entry.action] += len(entry.subjects)
    parts = [text.format(f"{replayed[action]:,}") for action, text in _PROGRESS if replayed[action]]
    steps = [_STEPS[Action(entry.action)] for entry in entries.rows if entry.action in _STEPS]
    return AuditLine(
        people[-1] if people else first.actor, f"Bulk replay: {', '.join([*parts, *steps[:1]])}", operation
    )


def fold_entries(entries: Sequence[E], most: int) -> tuple[list[tuple[Fold[E], str | None]], int]:
    """Fold the entries of each bulk replay into one; return at most `most` folds and the entries they use.

    The entries are newest first. Redrive's own entries about a dead letter belong to the bulk replay that
    replayed it last, as far as these entries say.
    """
    operations = _operations(entries)
    looks: list[Hashable] = [operation or place for place, operation in enumerate(operations)]
    used, seen = 0, set[Hashable]()
    for look in looks:
        if len(seen | {look}) > most:
            break
        seen.add(look)
        used += 1
    folds = fold(range(used), looks.__getitem__)
    return [
        (Fold(entries[places.first], [entries[place] for place in places.others]), operations[places.first])
        for places in folds
    ], used


def _operations(entries: Sequence[EntryFields]) -> list[str | None]:
    """Return the bulk replay that each entry belongs to."""
    found: list[str | None] = []
    replayed_by: dict[str, str | None] = {}
    for entry in reversed(entries):
        operation = entry.detail.get("operation")
        if entry.action in _STEPS:
            operation = next(iter(entry.subjects), None)
        elif entry.action == Action.REPLAY_REQUESTED:
            replayed_by |= dict.fromkeys(entry.subjects, operation)
        elif entry.actor == SELF and entry.action in _OF_REPLAYS:
            operations = {replayed_by.get(subject) for subject in entry.subjects}
            operation = operations.pop() if len(operations) == 1 else None
        found.append(operation if isinstance(operation, str) else None)
    return found[::-1]


def _one(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in set('aeio') else 'a'} {noun}"
