"""Other spellings of names: fields in camelCase, and names that other systems use. Input only."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeVar

from redrive.errors import InvalidValueError

V = TypeVar("V")

_NO_ALIASES: Mapping[str, str] = MappingProxyType({})
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")


def snake_case(name: str) -> str:
    """Return a name such as fromStepIndex as from_step_index."""
    return _HUMP.sub(lambda hump: f"_{hump[0].lower()}", name)


def own_names(
    given: Mapping[str, V], known: Collection[str], aliases: Mapping[str, str] = _NO_ALIASES
) -> dict[str, V]:
    """Replace aliases, and camelCase forms of known names, by the known names. Keep unknown names.

    Reject a mapping that has two spellings of one name: it could hold two values.
    """
    named: dict[str, V] = {}
    spellings: dict[str, str] = {}
    for name, value in given.items():
        own = _own_name(name, known, aliases)
        if own in spellings:
            raise InvalidValueError(
                f"{spellings[own]!r} and {name!r} are two spellings of {own!r}; pass only {own!r}"
            )
        spellings[own] = name
        named[own] = value
    return named


def _own_name(name: str, known: Collection[str], aliases: Mapping[str, str]) -> str:
    if name in known:
        return name
    own = aliases.get(name) or snake_case(name)
    return own if own in known else aliases.get(own, name)
