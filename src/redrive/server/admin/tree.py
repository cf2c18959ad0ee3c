"""JSON as a page shows it: rows of keys and values, folded where there are many, up to a maximum.

The rows are flat, so that a template needs no recursion: a row `open` starts a container, `close` ends it.
Every container gets a fair share of the rows that are left, so that one long list doesn't use up all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

from redrive.policy.codec import JsonValue, decode
from redrive.policy.redact.marker import MARKER

MAX_LENGTH = 32_768
"""A page parses only the beginning of a longer JSON text."""
MAX_ROWS = 300
MAX_ENTRIES = 100
MAX_DEPTH = 12
LONG_STRING = 160
MAX_STRING_LENGTH = 8_000
MAX_COPY_LENGTH = 20_000
SEALED, UNREADABLE = "$sealed", "$unreadable"

_FEW = 6
_LEAST = 2
_SHORT = 60
_TOKEN = re.compile(r'"(?:[^"\\]++|\\(?:u[0-9a-fA-F]{4}|[^u]))*+("?)|[\[\]{},:]', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}
_MARK = re.compile(rf"({MARKER.pattern}|\[REDACTED\])")

_Container = dict[str, JsonValue] | list[JsonValue]
Kind = Literal["open", "close", "string", "number", "word", "empty", "sealed", "unreadable", "deep", "rest"]


class TreePart(NamedTuple):
    """A part of a string. `redacted` is the kind of secret that it replaces."""

    text: str
    redacted: str = ""


class TreeRow(NamedTuple):
    """
    key          the name or the index; empty for the value itself
    parts        the text; of a long string, its beginning
    more         of a long string: the part that the page shows
    size         entries of a container, characters of a long string, or entries that a rest leaves out
    is_unfolded  whether a container is unfolded at first
    """

    kind: Kind
    key: str = ""
    parts: tuple[TreePart, ...] = ()
    more: tuple[TreePart, ...] = ()
    size: int = 0
    noun: str = ""
    is_unfolded: bool = False

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


class Tree(NamedTuple):
    """
    cut    how many characters of the text were parsed; 0: all
    size   characters of the whole text
    copy   the text to copy; empty if it is too long for that
    whole  every value is in it
    """

    rows: tuple[TreeRow, ...]
    size: int
    cut: int = 0
    copy: str = ""

    @property
    def whole(self) -> bool:
        partly = any(row.kind in ("rest", "deep") or row.size > MAX_STRING_LENGTH for row in self.rows)
        return not self.cut and not partly

    @property
    def redacted(self) -> int:
        """How many of the values shown have a redacted secret."""
        return sum(any(part.redacted for part in (*row.parts, *row.more)) for row in self.rows)


def tree_of(value: JsonValue) -> Tree:
    """Return the tree of a JSON value; of a large one, that of its beginning."""
    text = json.dumps(value, ensure_ascii=False)
    cut = MAX_LENGTH if len(text) > MAX_LENGTH else 0
    copy = pretty(value) if len(text) <= MAX_COPY_LENGTH else ""
    visible = decode(beginning(text)) if cut else value
    return Tree(tuple(_rows("", visible, 0, MAX_ROWS)), len(text), cut, copy[: 2 * MAX_COPY_LENGTH])


def pretty(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _rows(key: str, value: JsonValue, depth: int, budget: int) -> Iterator[TreeRow]:
    if not isinstance(value, dict | list):
        yield _scalar(key, value)
    elif not value:
        yield TreeRow("empty", key, (TreePart("{}" if isinstance(value, dict) else "[]"),))
    elif (hidden := _hidden(key, value)) is not None:
        yield hidden
    elif depth >= MAX_DEPTH:
        yield TreeRow("deep", key, size=len(value), noun=_noun(value))
    else:
        yield TreeRow("open", key, _gist(value), (), len(value), _noun(value), _unfolded(value, depth))
        yield from _entries(value, depth, budget)
        yield TreeRow("close")


def _entries(value: _Container, depth: int, budget: int) -> Iterator[TreeRow]:
    """Give each entry one row, and share the rest of the budget among containers."""
    entries = _first(value, budget)
    spare = budget - len(entries)
    waiting = sum(isinstance(item, dict | list) for _, item in entries)
    for key, item in entries:
        share = 0
        if isinstance(item, dict | list):
            share, waiting = max(0, spare) // waiting, waiting - 1
        if isinstance(item, dict | list) and item and share < _LEAST:
            yield TreeRow("deep", key, size=len(item), noun=_noun(item))
            continue
        rows = list(_rows(key, item, depth + 1, share - 1))
        spare -= len(rows) - 1
        yield from rows
    if len(value) > len(entries):
        yield TreeRow("rest", size=len(value) - len(entries))


def _first(value: _Container, budget: int) -> list[tuple[str, JsonValue]]:
    """Return the entries to show: most names of an object, but only as many items of a list as fit whole."""
    if isinstance(value, dict):
        return list(islice(value.items(), min(MAX_ENTRIES, max(1, budget))))
    needed = 0
    found: list[tuple[str, JsonValue]] = []
    for index, item in enumerate(value[:MAX_ENTRIES]):
        needed += 1 + (len(item) + 1 if isinstance(item, dict | list) else 0)
        if found and needed > budget:
            break
        found.append((str(index), item))
    return found


def _hidden(key: str, value: _Container) -> TreeRow | None:
    """Return the row of a value that could not be decrypted or read, if it is one."""
    if isinstance(value, dict) and len(value) == 1:
        for name, kind in ((SEALED, "sealed"), (UNREADABLE, "unreadable")):
            if name in value:
                return TreeRow(kind, key, (TreePart(str(value[name])[:LONG_STRING]),))  # type: ignore[arg-type]
    return None


def _scalar(key: str, value: str | float | None) -> TreeRow:
    if isinstance(value, str):
        return _string(key, value)
    if value is None or isinstance(value, bool):
        return TreeRow("word", key, (TreePart(json.dumps(value)),))
    return TreeRow("number", key, (TreePart(json.dumps(value)),))


def _string(key: str, value: str) -> TreeRow:
    if len(value) <= LONG_STRING and "\n" not in value:
        return TreeRow("string", key, _parts(value))
    gist = value[:LONG_STRING].partition("\n")[0]
    return TreeRow("string", key, _parts(gist), _parts(value[:MAX_STRING_LENGTH]), len(value))


def _parts(text: str) -> tuple[TreePart, ...]:
    if "[" not in text:
        return (TreePart(text),)
    return tuple(TreePart(piece, _secret(piece)) for piece in _MARK.split(text) if piece)


def _secret(text: str) -> str:
    if not _MARK.fullmatch(text):
        return ""
    return text.strip("[]").split(":")[1].replace("_", " ") if ":" in text else "secret"


def _gist(value: _Container) -> tuple[TreePart, ...]:
    """Return the names of the first entries of a folded object."""
    if isinstance(value, list):
        return ()
    names = ", ".join(name[:_SHORT] for name in islice(value, _FEW))
    return (TreePart(names if len(names) <= _SHORT else f"{names[: _SHORT - 1]}…"),)


def _unfolded(value: _Container, depth: int) -> bool:
    return depth == 0 or (depth <= 2 and len(value) <= 2 * _FEW)


def _noun(value: JsonValue) -> str:
    return "entry" if isinstance(value, dict) else "item"


# The beginning of a long text


def beginning(text: str, limit: int = MAX_LENGTH) -> str:
    """Cut JSON to a length, after a whole value or within a string, and close all brackets."""
    if len(text) <= limit:
        return text
    head = text[:limit]
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
    """Return whether a string is a value, not a key: after a colon, in a list, or alone."""
    return before == ":" or not closers or closers[-1] == "]"


def _closing(closers: list[str]) -> str:
    return "".join(reversed(closers))
