"""Failures in one line: the headline of an error, and what was decided about it."""

from __future__ import annotations

import re

from redrive.model.decision import Reason

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"[^\W\d_]{2,}")
_COMPUTATION = ("wait ", "due ", "failure ")
_MAX_ATTEMPTS = re.compile(r"at most (\d+) attempts")


def headline(message: str | None, error_type: str | None, title: str) -> str:
    """Return the message, with the error's type if the message alone says nothing: "KeyError: 'postal_code'".

    Without a message it is the title.
    """
    if not message:
        return title
    says_something = _WORD.search(_QUOTED.sub("", message)) is not None
    kind = (error_type or "").rpartition(".")[2]
    return message if says_something or not kind or kind in message else f"{kind}: {message}"


def short(text: str, limit: int = 120) -> str:
    """Return the beginning of a text on one line, at most `limit` characters long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def summarize_explanation(explanation: str) -> str:
    """Drop from a stored explanation how the decision was computed: "all 4 attempts are used up".

    A text that Redrive didn't write stays as it is.
    """
    rule, *others = explanation.split("; ")
    parts = others if " (rule " in rule else [rule, *others]
    parts = [part for part in parts if not part.startswith(_COMPUTATION)]
    most = _MAX_ATTEMPTS.search(explanation)
    if most and Reason.ATTEMPTS_SPENT.sentence in parts:
        parts[parts.index(Reason.ATTEMPTS_SPENT.sentence)] = f"all {most[1]} attempts are used up"
    return "; ".join(parts) or explanation
