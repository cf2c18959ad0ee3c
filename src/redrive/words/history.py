"""The history of a dead letter: what people did to it, such as "resolved it" in "ana resolved it"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.model.audit import Action
from redrive.model.caller import SELF
from redrive.model.replay import REPLAYED, Mode, ReplayState
from redrive.words.state import state_label

_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        Action.DEAD_LETTER_RESOLVED: "resolved it",
        Action.DEAD_LETTER_IGNORED: "ignored it",
        Action.DEAD_LETTER_ARCHIVED: "archived it",
        Action.DEAD_LETTER_EXHAUSTED: "used up its automatic redrives",
        Action.DEAD_LETTER_REOPENED: "reopened it",
        Action.DEAD_LETTER_REVEALED: "revealed its payload",
        Action.RUN_CANCELLED: "cancelled its run",
        Action.RUN_RETRIED: "retried its run",
    }
)

_AFTER_REPLAY: Mapping[str, str] = MappingProxyType(
    {
        Action.DEAD_LETTER_RESOLVED: "resolved it, because its step succeeded",
        Action.DEAD_LETTER_REOPENED: "reopened it, because its run failed again",
    }
)

MAX_PATHS = 5
_NOT_STARTED = frozenset({ReplayState.PLANNED, ReplayState.REFUSED, ReplayState.SKIPPED})

LISTED_ELSEWHERE = frozenset(
    {
        Action.DEAD_LETTER_MOVED,
        Action.DEAD_LETTER_NOTED,
        Action.REPLAY_REQUESTED,
        Action.REPLAY_SUCCEEDED,
        Action.REPLAY_FAILED,
        Action.REPLAY_CANCELLED,
    }
)
"""Audit actions that a history omits, because it shows the notes and the replays themselves."""


class ActionText(NamedTuple):
    """What was done, and the text that came with it, such as a reason."""

    what: str
    text: str = ""


def describe_action(action: str, detail: Mapping[str, Any], actor: str) -> ActionText:
    """Describe an entry of the audit about a dead letter. Redrive itself acts because of a replay."""
    if actor == SELF and action in _AFTER_REPLAY:
        return ActionText(_AFTER_REPLAY[action])
    if action == Action.DEAD_LETTER_ASSIGNED:
        name = detail.get("assignee")
        return ActionText(f"assigned it to {name}" if name else "unassigned it")
    if action == Action.DEAD_LETTER_TAGGED:
        added, removed = (_strings(detail.get(name)) for name in ("added", "removed"))
        return ActionText(
            "tagged it", " ".join([*(f"+{tag}" for tag in added), *(f"−{tag}" for tag in removed)])
        )
    if action == Action.DEAD_LETTER_LINKED:
        return ActionText(_describe_link(detail))
    what = _TEXTS.get(action) or action.replace("_", " ").replace(".", ": ")
    return ActionText(what, str(detail.get("reason") or ""))


def describe_replay(
    mode: str,
    state: str,
    *,
    automatic: bool,
    changed: Sequence[str],
    reason: str | None,
    note: str | None,
    started: bool = True,
) -> ActionText:
    """Describe a replay of a dead letter; `note` is its result. `started` is False if it never started.

    `changed` has the paths of the fields that an operator changed; "" stands for the whole payload. The text
    leaves out the reason of an automatic replay, which says only that it was automatic.
    """
    if not started or state in _NOT_STARTED:
        what = "planned a replay of the failed step only" if mode == Mode.STEP_ONLY else "planned a replay"
    else:
        what = "replayed the failed step only" if mode == Mode.STEP_ONLY else "replayed it"
    what += " automatically" if automatic else ""
    if changed:
        paths = ", ".join(path for path in changed[:MAX_PATHS] if path)
        more = ", …" if len(changed) > MAX_PATHS else ""
        what += f" with an edited payload ({paths}{more})" if paths else " with an edited payload"
    result = f"{note[0].upper()}{note[1:]}" if note else ""
    return ActionText(what, ". ".join(text for text in (None if automatic else reason, result) if text))


def describe_closing(state: str, by: str | None, resolution: str | None) -> ActionText:
    """Say how a dead letter was closed, and with which reason: "Resolved by ana"."""
    if resolution == REPLAYED:
        return ActionText(
            "Resolved by an automatic replay" if by == SELF else f"Resolved by a replay of {by}"
        )
    return ActionText(
        f"{state_label(state).word} by {by}" if by else state_label(state).word, resolution or ""
    )


def _describe_link(detail: Mapping[str, Any]) -> str:
    if "no_longer_depends_on" in detail:
        return f"removed its dependency on {detail['no_longer_depends_on']}"
    others = detail.get("depends_on")
    return f"made it depend on {', '.join(_strings(others)) or others}"


def _strings(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
