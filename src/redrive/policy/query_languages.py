"""The query languages of runs and failure groups, and the queries that may be saved as a view."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from types import MappingProxyType

from redrive.errors import InvalidValueError
from redrive.model.alias import RUN_ALIASES
from redrive.model.failure_group import REGRESSED, GroupSort, GroupState
from redrive.model.query import TEXT, Order, Value
from redrive.model.run import ENDED_RUNS, FAILED_RUNS, LIVE_RUNS, RunPosition, RunState
from redrive.model.saved_view import Looking, ShownView, ViewedPage
from redrive.policy.bounds import choice
from redrive.policy.criterion import (
    DEAD_LETTERS,
    GROUPS_ONLY,
    READERS,
    TIMES,
    Language,
    Reader,
    read_number,
    read_states,
    read_text,
    read_time,
)
from redrive.policy.query import parse

MAX_SAVED_LENGTH = 2_000
"""Characters that fit into an address."""


RUN_WORDS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {state.lower(): (state,) for state in RunState}
    | {str(each): (each,) for each in RunPosition}
    | {word: (meaning,) for word, meaning in RUN_ALIASES.items()}
    | {"live": LIVE_RUNS, "failed": FAILED_RUNS, "ended": ENDED_RUNS, "any": tuple(RunState)}
)
"""The values of `is:`. `failed` is more than the state of that name: every end without success."""

_RUN_READERS: Mapping[str, Reader] = MappingProxyType(
    {"is": partial(read_states, RUN_WORDS)}
    | dict.fromkeys(("workflow", "queue", "id", "key", "correlation", "tag", "version"), read_text)
    | dict.fromkeys(("priority", "attempts"), read_number)
    | dict.fromkeys(TIMES, read_time)
)

RUNS = Language("runs", _RUN_READERS, has_text=False)


GROUP_WORDS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {word: (word,) for word in (*map(str.lower, GroupState), REGRESSED)}
)
"""The values of `group:`, the state of the group itself. A `regressed` one was reopened."""

SHARED = ("is", "category", "workflow", "step", "task", "error", "fp", "since", "until")
"""Keys that groups share with dead letters; for `is`, one dead letter in that state is enough."""

_GROUP_READERS: Mapping[str, Reader] = MappingProxyType(
    {key: READERS[key] for key in SHARED}
    | {"group": partial(read_states, GROUP_WORDS), "occurrences": read_number}
)

GROUPS = Language(
    "failure groups",
    _GROUP_READERS,
    elsewhere={key: DEAD_LETTERS.noun for key in READERS if key not in _GROUP_READERS},
)

_EITHER = Language("dead letters and their groups", {**READERS, **_GROUP_READERS})


def about_groups(text: str) -> bool:
    """Tell whether a query selects failure groups; otherwise it selects single dead letters.

    Reject unknown keys, and keys of both, since no list could show the result.
    """
    keys = {term.key for term in parse(text, _EITHER).terms} - {TEXT}
    letters, groups = sorted(keys - GROUPS.readers.keys()), sorted(keys & set(GROUPS_ONLY))
    if letters and groups:
        raise InvalidValueError(
            f"{letters[0]!r} asks about single dead letters and {groups[0]!r} about failure groups; leave "
            f"one of them out"
        )
    return not letters


def require_understood(looking: Looking) -> None:
    """Reject a view whose query or order its page does not understand."""
    if len(looking.query) > MAX_SAVED_LENGTH:
        raise InvalidValueError(
            f"a query that is saved has at most {MAX_SAVED_LENGTH:,} characters, this one has "
            f"{len(looking.query):,}"
        )
    if looking.page is ViewedPage.RUNS:
        parse(looking.query, RUNS)
        _refuse_any(looking)
    elif _shows_groups(looking):
        parse(looking.query, GROUPS)
        _require_order(looking.sort, GroupSort)
    else:
        parse(looking.query, DEAD_LETTERS)
        _require_order(looking.sort, Order)


def _shows_groups(looking: Looking) -> bool:
    if not looking.view:
        return about_groups(looking.query)
    return choice("view", looking.view, ShownView) is ShownView.GROUPS


def _require_order(sort: str, orders: type[StrEnum]) -> None:
    if sort:
        choice("sort", sort, orders)


def _refuse_any(looking: Looking) -> None:
    for name in ("view", "sort"):
        if getattr(looking, name):
            raise InvalidValueError(f"the page of runs has no {name}; leave it out")
