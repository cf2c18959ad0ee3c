"""Suggestions for a mistyped word: "did you mean …?"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from redrive.words.number import names

MAX_LISTED = 40
MAX_WORD_LENGTH = 200
"""Only the beginning of a longer word is compared, because comparing takes quadratic time."""

_NONE: Mapping[str, str] = MappingProxyType({})


def suggest(
    word: str, known: Iterable[str], *, aliases: Mapping[str, str] = _NONE, otherwise: str | None = None
) -> str:
    """Return "did you mean 'name'?", or `otherwise` if no known name is similar.

    Without `otherwise`, list the known names.
    """
    known = _ordered(known)
    name = closest(word, known, aliases=aliases)
    if name is not None:
        return f"did you mean {name!r}?"
    if otherwise is not None:
        return otherwise
    return f"use one of: {names(known, MAX_LISTED)}" if known else "none exist yet"


def closest(word: str, known: Iterable[str], *, aliases: Mapping[str, str] = _NONE) -> str | None:
    """Return the known name that is most similar to the word.

    An alias, the word of another product for the same thing, takes precedence if it maps to a known name.
    """
    from difflib import get_close_matches  # slow to import, and only needed after a typo

    known, word = _ordered(known), word[:MAX_WORD_LENGTH]
    alias = aliases.get(word) or aliases.get(word.lower())
    if alias in known:
        return alias
    found = get_close_matches(word, known, n=1) or get_close_matches(word.lower(), known, n=1)
    return found[0] if found else None


def _ordered(known: Iterable[str]) -> list[str]:
    """Keep the caller's order; sort a set, so that the result is deterministic."""
    return sorted(known) if isinstance(known, Set) else list(known)
