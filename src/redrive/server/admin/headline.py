"""What a failure is called in a line, and where such a line may be broken."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"[^\W\d_]{2,}")
_AFTER_SLASH = re.compile(r"(?<=[^/]/)(?!/|$)")


def headline(message: str | None, error_type: str | None, title: str) -> str:
    """What was said; with the kind of error where that alone says nothing, as in KeyError: 'postal_code'."""
    if not message:
        return title
    says_something = _WORD.search(_QUOTED.sub("", message)) is not None
    kind = (error_type or "").rpartition(".")[2]
    return message if says_something or not kind or kind in message else f"{kind}: {message}"


def pieces(text: str) -> list[str]:
    """Its parts, each but the last up to a single slash: an address is broken there, if it must be."""
    return _AFTER_SLASH.split(text)
