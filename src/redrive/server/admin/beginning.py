"""The beginning of a long JSON text, as JSON: a page shows some of it, and must not have to read all."""

from __future__ import annotations

import re

MAX_LENGTH = 32_768

_TOKEN = re.compile(r'"(?:[^"\\]++|\\(?:u[0-9a-fA-F]{4}|[^u]))*+("?)|[\[\]{},:]', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}


def beginning(text: str, longest: int = MAX_LENGTH) -> str:
    """Up to so many characters of it, cut behind a whole value or within a string, with all brackets closed.

    What is no JSON comes out as something that is none either.
    """
    if len(text) <= longest:
        return text
    head = text[:longest]
    closers: list[str] = []
    end, before = 0, ""
    for token in _TOKEN.finditer(head):
        sign = token[0][0]
        if sign == '"' and not token[1]:  # it was cut
            if _is_value(before, closers):
                return f'{head[: token.end()]}"{_closing(closers)}'
            break
        if sign in _CLOSERS:
            closers.append(_CLOSERS[sign])
        elif sign in "]}" and closers:
            closers.pop()
        if sign not in '":':
            end = token.start() if sign == "," else token.end()
        before = before if sign == '"' else sign
    return head[:end] + _closing(closers)


def _is_value(before: str, closers: list[str]) -> bool:
    """A string is a value, and not a key, behind a colon, in a list, and alone."""
    return before == ":" or not closers or closers[-1] == "]"


def _closing(closers: list[str]) -> str:
    return "".join(reversed(closers))
