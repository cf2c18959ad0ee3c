"""The language for failure groups: the keys of dead letters that groups have, too, and two of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from redrive.errors import InvalidValueError
from redrive.model.failure_group import REGRESSED, GroupState
from redrive.model.query import TEXT, Value
from redrive.policy.criterion import (
    DEAD_LETTERS,
    GROUPS_ONLY,
    READERS,
    Language,
    Reader,
    read_number,
    read_states,
)
from redrive.policy.query import parse

GROUP_WORDS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {word: (word,) for word in (*map(str.lower, GroupState), REGRESSED)}
)
"""What `group:` takes: the state of the group itself. `regressed` are those that are open once more."""

SHARED = ("is", "category", "workflow", "step", "task", "error", "fp", "since", "until")
"""Keys that a group has as its dead letters have them; with `is`, one dead letter in that state is enough."""

_READERS: Mapping[str, Reader] = MappingProxyType(
    {key: READERS[key] for key in SHARED}
    | {"group": partial(read_states, GROUP_WORDS), "occurrences": read_number}
)

GROUPS = Language(
    "failure groups",
    _READERS,
    elsewhere={key: DEAD_LETTERS.noun for key in READERS if key not in _READERS},
)

_EITHER = Language("dead letters and their groups", {**READERS, **_READERS})


def about_groups(text: str) -> bool:
    """Can this be asked about failure groups? Otherwise it asks about single dead letters.

    What neither of them has is refused, and what no list could show: keys of both.
    """
    keys = {term.key for term in parse(text, _EITHER).terms} - {TEXT}
    letters, groups = sorted(keys - GROUPS.readers.keys()), sorted(keys & set(GROUPS_ONLY))
    if letters and groups:
        raise InvalidValueError(
            f"{letters[0]!r} asks about single dead letters and {groups[0]!r} about failure groups; leave "
            f"one of them out"
        )
    return not letters
