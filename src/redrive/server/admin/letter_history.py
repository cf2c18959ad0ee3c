"""The history of a dead letter in one list: how it came to be, what was done to it, said about it, tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from redrive.failures.audit import AuditEntry
from redrive.model.audit import Action
from redrive.model.caller import SELF
from redrive.model.dead_letter import DeadLetter, Note
from redrive.model.replay import Mode, Replay
from redrive.server.admin.decided import decided

_WORDS = {
    Action.DEAD_LETTER_RESOLVED: "resolved it",
    Action.DEAD_LETTER_IGNORED: "ignored it",
    Action.DEAD_LETTER_ARCHIVED: "archived it",
    Action.DEAD_LETTER_REOPENED: "reopened it",
    Action.DEAD_LETTER_REVEALED: "saw its payload with its secrets",
    Action.RUN_CANCELLED: "cancelled its run",
    Action.RUN_RETRIED: "retried its run",
}
_TOLD_OTHERWISE = frozenset(
    {
        Action.DEAD_LETTER_MOVED,
        Action.DEAD_LETTER_NOTED,
        Action.REPLAY_REQUESTED,
        Action.REPLAY_SUCCEEDED,
        Action.REPLAY_FAILED,
        Action.REPLAY_CANCELLED,
    }
)
"""Notes and replays are in the list themselves."""


class Event(NamedTuple):
    """
    text       what somebody has said, or what came of it
    state      of a replay
    note       it was written for whoever comes next
    operation  the bulk replay that a replay belongs to
    together   how many dead letters it was done to at once
    """

    at: float
    who: str
    what: str
    text: str = ""
    state: str = ""
    note: bool = False
    operation: str = ""
    together: int = 1


def history_of(
    letter: DeadLetter, entries: Iterable[AuditEntry], replays: Iterable[Replay], notes: Iterable[Note]
) -> Sequence[Event]:
    """The newest first."""
    born = Event(letter.created_at, SELF, "made it a dead letter", decided(letter.explanation))
    told = [born, *_done(entries), *map(_replay, replays), *map(_note, notes)]
    return sorted(told, key=lambda event: -event.at)


def _done(entries: Iterable[AuditEntry]) -> Iterator[Event]:
    for each in entries:
        if each.action not in _TOLD_OTHERWISE:
            what, text = _deed(each.action, each.detail)
            yield Event(each.at, each.actor, what, text, together=max(1, len(each.subjects)))


def _deed(action: str, detail: dict[str, Any]) -> tuple[str, str]:
    if action == Action.DEAD_LETTER_ASSIGNED:
        name = detail.get("assignee")
        return (f"assigned it to {name}" if name else "took it from whoever looked after it"), ""
    if action == Action.DEAD_LETTER_TAGGED:
        return "tagged it", _tags(detail)
    if action == Action.DEAD_LETTER_LINKED:
        return _linked(detail), ""
    words = _WORDS.get(Action(action)) if action in list(Action) else None
    return words or action.replace("_", " ").replace(".", ": "), str(detail.get("reason") or "")


def _tags(detail: dict[str, Any]) -> str:
    added, removed = _words(detail.get("added")), _words(detail.get("removed"))
    return " ".join([*(f"+{each}" for each in added), *(f"−{each}" for each in removed)])


def _linked(detail: dict[str, Any]) -> str:
    if "no_longer_depends_on" in detail:
        return f"let it wait no longer for {detail['no_longer_depends_on']}"
    awaited = detail.get("depends_on")
    return f"let it wait for {', '.join(_words(awaited)) or awaited}"


def _words(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _replay(replay: Replay) -> Event:
    how = "the failed step alone" if replay.mode == Mode.STEP_ONLY else "it"
    what = f"replayed {how}" + (" automatically" if replay.automatic else "")
    what += " with a changed payload" if replay.edit else ""
    said = ". ".join(part for part in (replay.reason, replay.note) if part)
    return Event(
        replay.requested_at,
        replay.requested_by,
        what,
        said,
        replay.state,
        operation=replay.operation_id or "",
    )


def _note(note: Note) -> Event:
    return Event(note.at, note.author, "noted", note.body, note=True)
