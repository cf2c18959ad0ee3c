"""Failures in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from redrive.model.failure import PayloadMismatch
from redrive.words.number import names, noun

MAX_FIELDS = 10

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"[^\W\d_]{2,}")


def headline(message: str | None, error_type: str | None, title: str) -> str:
    """Return the message, with the error type if the message alone has no words: "KeyError: 'postal_code'".

    Without a message, return the title.
    """
    if not message:
        return title
    says_something = _WORD.search(_QUOTED.sub("", message)) is not None
    kind = (error_type or "").rpartition(".")[2]
    return message if says_something or not kind or kind in message else f"{kind}: {message}"


def first_line(text: str) -> str:
    """Return the first line that is not blank, or an empty string."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def short(text: str, limit: int = 120) -> str:
    """Put a text on one line and truncate it to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def describe_mismatch(mismatch: PayloadMismatch) -> str:
    """Name the fields that keep a task from reading its payload; "" if all names match."""
    return " ".join(
        f"{subject} the {noun(len(fields), 'field')} {names([repr(name) for name in fields], MAX_FIELDS)}."
        for subject, fields in (
            ("The code expects", mismatch.missing),
            ("The code doesn't know", mismatch.unknown),
        )
        if fields
    )


def list_fields(fields: Sequence[str]) -> str:
    return names(fields, MAX_FIELDS) or "none"
