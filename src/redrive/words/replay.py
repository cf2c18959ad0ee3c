"""Bulk replays: what was selected, and what the items wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.model.operation import UNDER_WAY_NOTE
from redrive.model.replay import Mode
from redrive.words.number import plural

MODES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        Mode.FROM_STEP: (
            "From the failed step to the end",
            "The failed step runs again, then the steps after it. Results of earlier steps are reused.",
        ),
        Mode.STEP_ONLY: (
            "The failed step alone",
            "Steps after it do not run: a run that has some is then partial, and can go on later.",
        ),
    }
)
"""The title and the meaning of each mode."""

_WAITS_FOR = ("breaker", "queue", "dead letter")


class Selection(NamedTuple):
    """What a bulk replay was planned for.

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
    """Read the selection of an operation, as it is stored and as the API gives it."""
    if "query" in stored:
        query = str(stored["query"])
        return Selection("query", query or "all dead letters", None, {"query": query})
    if "group" in stored:
        return Selection("group", str(stored["group"]), None, {"group": str(stored["group"])})
    ids = [str(letter_id) for letter_id in stored.get("ids", ())]
    count = int(stored.get("number", len(ids)))
    text = ids[0] if count == 1 and ids else f"{plural(count, 'dead letter')} selected by id"
    return Selection("ids", text, count, {"ids": ids} if len(ids) == count else {})


class ReplayWait(NamedTuple):
    """`number` items wait for a "breaker", a "queue" or a "dead letter" of this name."""

    kind: str
    name: str
    number: int


def waits_of(stored: Mapping[str, int]) -> Iterator[ReplayWait]:
    """Read how many items of a plan wait for each "breaker NAME", "queue NAME" or "dead letter ID"."""
    for what, items in stored.items():
        for kind in _WAITS_FOR:
            if what.startswith(f"{kind} "):
                yield ReplayWait(kind, what.removeprefix(f"{kind} "), items)


def blocking_operation(refusal: str) -> str:
    """Return the id of the replay in progress that is why an item was refused; empty for another reason."""
    before, after = UNDER_WAY_NOTE
    found = refusal.startswith(before) and refusal.endswith(after)
    return refusal.removeprefix(before).removesuffix(after) if found else ""
