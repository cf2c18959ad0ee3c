"""The timeline of a run: what held it, who executed it, and why it has no dead letter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from redrive.words.decision import explain
from redrive.words.replay import MODES
from redrive.words.state import status

_HOLDERS = MappingProxyType(
    {
        "breaker": "the breaker",
        "limit": "the concurrency limit",
        "order": "an earlier run with the order key",
    }
)
_UNKNOWN = MappingProxyType({"task": "the task", "workflow": "the workflow"})

REJECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "queue_full": "the organization had reached its limit of dead letters",
        "queue_disabled": "the strategy 'disabled' writes no dead letters",
        "only_on_request": "the strategy 'manual' writes dead letters only on request",
        "redrive_cannot_help": "the strategy 'selective' keeps only failures that a later replay can fix",
    }
)
"""Why a failure does not become a dead letter."""


def holder_name(holder: str) -> str:
    """Name what holds a run: "the breaker 'bank'"."""
    kind, _, name = holder.partition(":")
    return f"{_HOLDERS[kind]} {name!r}" if kind in _HOLDERS else holder


def unknown_work(holder: str) -> str:
    """Say what no worker knows: "no worker knows the task 'ship'"; "" if something else holds the run."""
    kind, _, name = holder.partition(":")
    return f"no worker knows {_UNKNOWN[kind]} {name!r}" if kind in _UNKNOWN else ""


def _rejection(code: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda it: REJECTIONS[code]


def _replay_started(it: Mapping[str, Any]) -> str:
    title, _ = MODES.get(it["mode"], (it["mode"], ""))
    why = f": {it['reason']}" if it["reason"] else ""
    return f"by {it['by']}, {title[:1].lower()}{title[1:]}{why}"


TIMELINE: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "held": lambda it: f"by {holder_name(it['holder'])}",
        "released": lambda it: f"by {holder_name(it['holder'])}",
        "letter_rejected": lambda it: (
            f"Redrive wrote no dead letter: {REJECTIONS.get(it['reason'], it['reason'])}"
        ),
        "executed_by": lambda it: f"by {it['worker']}",
        "decided": lambda it: explain(it["decision"]),
        "run_ended": lambda it: status(it["state"]),
        "replay_started": _replay_started,
        **{code: _rejection(code) for code in REJECTIONS},
    }
)
"""The text of each fact about an event of a run."""
