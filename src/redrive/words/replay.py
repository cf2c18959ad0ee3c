"""Bulk replays: what was selected, how carefully the replay proceeds, and what its items wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from redrive.model.operation import UNDER_WAY_NOTE
from redrive.model.replay import Mode
from redrive.words.number import number, percent, plural
from redrive.words.time import duration

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


class Rollout(Protocol):
    """How a bulk replay proceeds; `redrive.policy.rollout.RolloutOptions` is one."""

    @property
    def canary(self) -> int: ...
    @property
    def rate(self) -> float | None: ...
    @property
    def failure_rate(self) -> float: ...
    @property
    def minimum(self) -> int: ...
    @property
    def same_failures(self) -> int | None: ...
    @property
    def stop_on_breaker(self) -> bool: ...


def describe_rollout(rollout: Rollout, will_run: int) -> Iterator[str]:
    """Say how a replay of `will_run` dead letters starts, how fast it is, and when it stops itself."""
    rest = max(0, will_run - rollout.canary)
    if will_run <= 1:
        yield "Starts at once."
    elif rest and rollout.canary:
        yield f"Starts with a canary of {number(rollout.canary)}; the others follow if it goes well."
    elif not rest or rollout.rate is None:
        yield f"Starts all {number(will_run)} at once."
    if rollout.rate is not None and rest:
        yield f"At most {rollout.rate:g} per second, so {duration(rest / rollout.rate)} or longer."
    if will_run > 1:
        yield f"Stops itself {_describe_stop(rollout)}."


def _describe_stop(rollout: Rollout) -> str:
    judged = f"judged once {rollout.minimum:,} have finished, and at the end of a canary"
    causes = [f"when more than {percent(rollout.failure_rate)} fail ({judged})"]
    if rollout.same_failures is not None:
        causes.append(f"when {plural(rollout.same_failures, 'item')} failed again in the same way")
    if rollout.stop_on_breaker:
        causes.append("when a breaker opens that the rest depends on")
    return causes[0] if len(causes) == 1 else f"{', '.join(causes[:-1])}, or {causes[-1]}"


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
