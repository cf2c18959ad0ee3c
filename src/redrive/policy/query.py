"""The query language of URLs, the search box, the API and the command line.

    is:open category:timeout,network -step:charge attempts:>3 since:2h "connection reset"

Terms are separated by spaces, and all of them must match. `key:a,b` matches any of the values; with a minus
in front, it matches none of them. A term without a key must occur in the title, the message or the type of
the error. The languages of dead letters, their groups, runs and events have different keys; runs and events
cannot be searched by text. Quoted text is literal; a backslash in quotes escapes the next character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NoReturn

from redrive.errors import InvalidValueError, QueryWordError
from redrive.model.failure_group import GroupSort
from redrive.model.query import TEXT, Order, Query, Term, Value
from redrive.model.saved_view import Looking, ViewedPage, ViewMode
from redrive.policy.bounds import choice, require_kind
from redrive.policy.query_language import DEAD_LETTERS, GROUPS, GROUPS_ONLY, RUNS, TIMES, Language, Word
from redrive.words.suggestion import closest, suggest

MAX_QUERY_LENGTH = 4_000
MAX_TERMS = 32
MAX_VALUES = 100
MAX_SAVED_LENGTH = 2_000
"""The maximum length of a saved query, which must fit into a URL."""

KEY_ALIASES = {"fingerprint": "fp", "state": "is"}
"""Keys with another name: state:OPEN is is:open."""

OTHER_WORDS = {**KEY_ALIASES, "group": "fp"}
"""Words that people often write instead of a key."""

_PIECE = re.compile(r'(?P<sign>-?)(?:(?P<key>[^\s":,]*):)?(?P<rest>(?:"(?:[^"\\]|\\.)*"|[^\s"])*)(?P<odd>"?)')
_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",]+)')
_VALUES = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^",]+)(?:,(?:"(?:[^"\\]|\\.)*"|[^",]+))*')


def parse(text: str, language: Language = DEAD_LETTERS) -> Query:
    """Parse a query; an error names the position of the problem."""
    require_kind("a query", text, str)
    if len(text) > MAX_QUERY_LENGTH:
        raise InvalidValueError(
            f"a query has at most {MAX_QUERY_LENGTH:,} characters, this one has {len(text):,}"
        )
    terms = tuple(_terms(text, language))
    if len(terms) > MAX_TERMS:
        raise InvalidValueError(f"a query has at most {MAX_TERMS} terms, this one has {len(terms)}")
    return Query(terms)


def _terms(text: str, language: Language) -> Iterator[Term]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        piece = _PIECE.match(text, place)
        assert piece is not None  # noqa: S101 — the pattern also matches the empty string
        yield _term(piece, place + 1, language)
        place = piece.end()


def _term(piece: re.Match[str], position: int, language: Language) -> Term:
    _refuse_odd(piece, position)
    negated = bool(piece["sign"])
    if piece["key"] is None:
        _refuse_text(piece["rest"], position, language)
        return Term(TEXT, (_free_text(piece["rest"], position + negated),), negated)
    written, place = piece["key"].lower(), position + negated
    key = written if written in language.readers else KEY_ALIASES.get(written, written)
    if key not in language.readers:
        _refuse_key(piece["key"], place, language)
    if negated and key in TIMES:
        raise InvalidValueError(
            f"{key!r} at position {place} cannot be negated; use since: or until: instead"
        )
    return Term(key, _values(key, piece["rest"], place + len(written) + 1, language), negated)


def _refuse_odd(piece: re.Match[str], position: int) -> None:
    if piece["odd"]:
        raise InvalidValueError(
            f"the quote at position {piece.start('odd') + 1} is never closed; add a closing quote"
        )
    if not piece[0].isprintable():
        raise InvalidValueError(f"the term at position {position} has characters that cannot be printed")


def _refuse_text(text: str, position: int, language: Language) -> None:
    if not language.has_text:
        raise InvalidValueError(
            f"the term at position {position}, {text[:100]!r}, has no key, and {language.noun} cannot be "
            f"searched by text; put a key before it: {', '.join(language.readers)}"
        )


def _refuse_key(key: str, position: int, language: Language) -> NoReturn:
    noun, known = language.elsewhere.get(key.lower()), language.readers
    if noun:
        other = OTHER_WORDS.get(key.lower())
        instead = f"; did you mean {other!r}?" if other in known else ""
        raise InvalidValueError(
            f"the key {key!r} at position {position} filters {noun}, not {language.noun}; remove it, or "
            f"query {noun}{instead}"
        )
    is_text = language.has_text and closest(key, known, aliases=OTHER_WORDS) is None
    quote = "; put text that contains a colon in quotes" if is_text else ""
    hint = suggest(key, known, aliases=OTHER_WORDS)
    raise QueryWordError(
        f"unknown key {key!r} at position {position}; {hint}{quote}",
        word=key,
        position=position,
        suggestion=closest(key, known, aliases=OTHER_WORDS),
    )


def _free_text(rest: str, position: int) -> str:
    quoted = _VALUE.fullmatch(rest) if rest.startswith('"') else None
    text = _unescaped(quoted[1]) if quoted else rest
    if not text or (quoted is None and '"' in rest):
        raise InvalidValueError(f"the text at position {position} is empty, or has quotes in the middle")
    return text


def _values(key: str, rest: str, position: int, language: Language) -> tuple[Value, ...]:
    if not _VALUES.fullmatch(rest):
        raise InvalidValueError(
            f"{key!r} at position {position - len(key) - 1} has no value, or an empty one; "
            f"write {key}:value, or {key}:one,another"
        )
    words = [
        Word(match[2] or _unescaped(match[1]), match[2] is None, key, position + match.start())
        for match in _VALUE.finditer(rest)
    ]
    if len(words) > (1 if key in TIMES else MAX_VALUES):
        raise InvalidValueError(f"{key!r} at position {position - len(key) - 1} has too many values")
    return tuple(dict.fromkeys(value for word in words for value in language.readers[key](word)))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


_EITHER = Language("dead letters and their groups", {**DEAD_LETTERS.readers, **GROUPS.readers})


def about_groups(text: str) -> bool:
    """Return whether a query selects failure groups; otherwise it selects single dead letters.

    Reject unknown keys, and queries with keys of both kinds, which no list could show.
    """
    keys = {term.key for term in parse(text, _EITHER).terms} - {TEXT}
    letters, groups = sorted(keys - GROUPS.readers.keys()), sorted(keys & set(GROUPS_ONLY))
    if letters and groups:
        raise InvalidValueError(
            f"{letters[0]!r} filters single dead letters and {groups[0]!r} filters failure groups; remove "
            f"one of them"
        )
    return not letters


def require_understood(looking: Looking) -> None:
    """Reject a view whose query or order its page does not understand."""
    if len(looking.query) > MAX_SAVED_LENGTH:
        raise InvalidValueError(
            f"a saved query has at most {MAX_SAVED_LENGTH:,} characters, this one has {len(looking.query):,}"
        )
    if looking.page is ViewedPage.RUNS:
        parse(looking.query, RUNS)
        for name in ("view", "sort"):
            if getattr(looking, name):
                raise InvalidValueError(f"the page of runs has no {name}; omit it")
    elif _shows_groups(looking):
        parse(looking.query, GROUPS)
        _require_order(looking.sort, GroupSort)
    else:
        parse(looking.query, DEAD_LETTERS)
        _require_order(looking.sort, Order)


def _shows_groups(looking: Looking) -> bool:
    if not looking.view:
        return about_groups(looking.query)
    return choice("view", looking.view, ViewMode) is ViewMode.GROUPS


def _require_order(sort: str, orders: type[StrEnum]) -> None:
    if sort:
        choice("sort", sort, orders)
