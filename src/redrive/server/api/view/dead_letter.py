"""Dead letters, as answers have them. They were redacted before they were stored."""

from __future__ import annotations

from typing import Any

from redrive.model.dead_letter import DeadLetter, DeadLetterLine, Note, version_of
from redrive.policy.verdict import Verdict
from redrive.server.answer import when
from redrive.server.api.view.stored import decoded, words

_TIMES = (
    "first_failed_at",
    "last_failed_at",
    "created_at",
    "updated_at",
    "last_replayed_at",
    "resolved_at",
    "next_redrive_at",
    "exhausted_at",
)
_STORED = ("policy", "metadata", "replay_override", "redrive_policy")


def line_view(letter: DeadLetterLine | DeadLetter) -> dict[str, Any]:
    fields = letter._asdict()
    for name in _TIMES:
        fields[name] = when(fields[name])
    fields["tags"] = words(letter.tags)
    fields["may_have_executed"] = bool(letter.may_have_executed)
    fields["version"] = version_of(letter)
    return fields


def letter_view(letter: DeadLetter) -> dict[str, Any]:
    """Without its payload and config: these are asked for by themselves."""
    fields = line_view(letter)
    for name in _STORED:
        fields[name] = decoded(fields[name])
    del fields["payload"], fields["config"]
    return fields


def payload_view(letter: DeadLetter) -> dict[str, Any]:
    return {"payload": decoded(letter.payload), "config": decoded(letter.config)}


def note_view(note: Note) -> dict[str, Any]:
    return {"id": note.id, "at": when(note.at), "author": note.author, "text": note.body}


def verdict_view(verdict: Verdict) -> dict[str, Any]:
    return verdict._asdict()
