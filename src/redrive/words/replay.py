"""Replays: their selection, why items wait or are not replayed, and why a replay stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.model.replay import HIDDEN, NOTHING, Mode
from redrive.words.failure import short
from redrive.words.number import percent, plural
from redrive.words.state import status

MAX_VALUE_LENGTH = 80

MODES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        Mode.FROM_STEP: (
            "From the failed step to the end",
            "The failed step runs again, then the steps after it. Results of earlier steps are reused.",
        ),
        Mode.STEP_ONLY: (
            "The failed step only",
            "Later steps don't run. If there are any, the run is partial afterwards and can be continued.",
        ),
    }
)
"""The title and the description of each mode."""


class Selection(NamedTuple):
    """The selection of a bulk replay.

    kind        "query", "group" or "ids"
    text        the query, the fingerprint of the group, the only id, or how many dead letters
    number      how many dead letters, if they were selected by their ids
    parameters  how the API is given the same selection; empty if not all ids are known
    title       of the failure group, if the caller knows it
    """

    kind: str
    text: str
    number: int | None = None
    parameters: Mapping[str, Any] = MappingProxyType({})
    title: str = ""


def selection_of(stored: Mapping[str, Any]) -> Selection:
    """Read the selection of an operation, as stored and as returned by the API."""
    if "query" in stored:
        query = str(stored["query"])
        return Selection("query", query or "all dead letters", None, {"query": query})
    if "group" in stored:
        return Selection("group", str(stored["group"]), None, {"group": str(stored["group"])})
    ids = [str(letter_id) for letter_id in stored.get("ids", ())]
    count = int(stored.get("number", len(ids)))
    text = ids[0] if count == 1 and ids else f"{plural(count, 'dead letter')} selected by id"
    return Selection("ids", text, count, {"ids": ids} if len(ids) == count else {})


def describe_change(change: Mapping[str, Any]) -> str:
    """Describe a change of a payload in one line: `address.country: "DE" → "AT"`."""
    before, after = change["before"], change["after"]
    if before == HIDDEN and after == HIDDEN:
        return f"{change['path']}: changed, not shown"
    if before == NOTHING:
        return f"{change['path']}: added {_value(after)}"
    return f"{change['path']}: {_value(before)} → {'removed' if after == NOTHING else _value(after)}"


def _value(value: object) -> str:
    return short(json.dumps(value, ensure_ascii=False), MAX_VALUE_LENGTH)


def _run_at_other_step(it: Mapping[str, Any]) -> str:
    if it["run_step"] is None:
        return "its run is at another step"
    return f"its run is at step {it['run_step'] + 1} now, not at step {it['step'] + 1}"


def _run_cancelled(it: Mapping[str, Any]) -> str:
    return f"its run was cancelled by {it['by']}" if "by" in it else "its run was cancelled"


def _too_many_failed(it: Mapping[str, Any]) -> str:
    share = percent(it["failed"] / it["finished"])
    finished = plural(it["finished"], "item")
    return f"{it['failed']:,} of {finished} failed: {share}, more than {percent(it['limit'])}"


REPLAYS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        # Why an item is not replayed
        "letter_removed": lambda it: "the dead letter no longer exists",
        "already_replaying": lambda it: "it is being replayed already; wait for the outcome",
        "run_succeeded": lambda it: "its run has succeeded, so nothing is left to do",
        "letter_closed": lambda it: f"it is {status(it['state'])}; reopen it first",
        "run_removed": lambda it: "its run no longer exists",
        "run_cancelled": _run_cancelled,
        "run_at_other_step": _run_at_other_step,
        "later_step_failed": lambda it: (
            "a later step of its run has a dead letter too; replay it to the end of the run"
        ),
        "run_not_failed": lambda it: f"its run is {status(it['state'])}; only failed runs are replayed",
        "failed_differently_since": lambda it: "it failed with another error after it was planned",
        "changed_since": lambda it: "it changed after it was planned",
        "in_other_replay": lambda it: (
            f"another replay includes it; resume or cancel that one: redrive replay view {it['operation']}"
        ),
        "may_repeat_unsafe_effect": lambda it: "it may repeat a side effect that is not safe to repeat",
        "dependency_unresolved": lambda it: "it depends on a dead letter that is not resolved",
        "operation_cancelled": lambda it: "the replay was cancelled before this item started",
        "failed_again": lambda it: f"failed in step {it['step']}: {it['title']}",
        # What an item waits for
        "waits_for_breaker": lambda it: f"the breaker {it['name']!r} to close",
        "waits_for_queue": lambda it: f"the queue {it['name']!r}, which is paused",
        "waits_for_dead_letter": lambda it: f"the dead letter {it['name']} to be resolved",
        # Why a replay stops
        "breaker_opened": lambda it: (
            f"the breaker {it['breaker']!r} opened, and remaining items depend on it"
        ),
        "same_failures": lambda it: f"{plural(it['items'], 'item')} failed with the same error as before",
        "too_many_failed": _too_many_failed,
        "unreadable": lambda it: f"its stored plan is damaged: {it['error']}",
    }
)
"""The clause of each fact about a replay, without a capital letter and a full stop."""
