"""Suggestions for a mistyped word: "did you mean …?"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from redrive.words.number import names

MAX_LISTED = 40
MAX_WORD_LENGTH = 200
"""Comparing takes quadratic time, so only the beginning of a longer word is compared."""

_NONE: Mapping[str, str] = MappingProxyType({})


def suggest(
    word: str, known: Iterable[str], *, aliases: Mapping[str, str] = _NONE, otherwise: str | None = None
) -> str:
    """Return "did you mean 'name'?", or what to do if no known name is similar.

    That is `otherwise`, or the list of known names if it is None.
    """
    known = _ordered(known)
    name = closest(word, known, aliases=aliases)
    if name is not None:
        return f"did you mean {name!r}?"
    if otherwise is not None:
        return otherwise
    return f"use one of: {names(known, MAX_LISTED)}" if known else "there are none"


def closest(word: str, known: Iterable[str], *, aliases: Mapping[str, str] = _NONE) -> str | None:
    """Return the known name that is most similar to the word.

    An alias, a word by which other products call the same thing, goes first if it stands for a known name.
    """
    from difflib import get_close_matches  # a mistake is rare, and the module is slow to import

    known, word = _ordered(known), word[:MAX_WORD_LENGTH]
    alias = aliases.get(word) or aliases.get(word.lower())
    if alias in known:
        return alias
    found = get_close_matches(word, known, n=1) or get_close_matches(word.lower(), known, n=1)
    return found[0] if found else None


def _ordered(known: Iterable[str]) -> list[str]:
    """Keep the caller's order, but sort a set, so that the answer is always the same."""
    return sorted(known) if isinstance(known, Set) else list(known)
