"""A parsed query over dead letters or runs: all its terms must match. `str` returns text that parses back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import NamedTuple

from redrive.model.dead_letter import CLOSED, HEALS_ITSELF, LIVE, NEEDS_YOU, DeadLetterState, Prospect
from redrive.model.run import ENDED_RUNS, FAILED_RUNS, LIVE_RUNS, RunState

MAX_COUNTED = 10_000
"""Matches are counted up to this number; a higher count is capped."""
TEXT = "text"
"""The key of a term without a key: text that must occur."""

_BARE = re.compile(r'[^\s",\\]+')
_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60))
_GROUPS: Mapping[frozenset[str], str] = {
    frozenset(LIVE): "live",
    frozenset(CLOSED): "closed",
    frozenset(NEEDS_YOU): "needs-you",
    frozenset(HEALS_ITSELF): "heals-itself",
    frozenset(DeadLetterState): "any",
    frozenset(LIVE_RUNS): "live",
    frozenset(FAILED_RUNS): "failed",
    frozenset(ENDED_RUNS): "ended",
    frozenset(RunState): "any",
}


class Order(StrEnum):
    """The sort order, by time."""

    NEWEST = "newest"
    OLDEST = "oldest"


class Who(Enum):
    """A special assignee: `ME` is the caller, `NOBODY` matches unassigned dead letters."""

    ME = "me"
    NOBODY = "none"

    def __str__(self) -> str:
        return self.value


class Beginning(NamedTuple):
    """A prefix."""

    text: str

    def __str__(self) -> str:
        return self.text


class Between(NamedTuple):
    """A range of integers, both ends included; None means unlimited."""

    low: int | None
    high: int | None

    def __str__(self) -> str:
        if self.high is None:
            return f">={self.low}"
        if self.low is None:
            return f"<={self.high}"
        return f"{self.low}" if self.low == self.high else f"{self.low}..{self.high}"


class Ago(NamedTuple):
    """A time relative to the query: that many seconds before now."""

    seconds: int

    def __str__(self) -> str:
        for unit, size in _UNITS:
            if self.seconds and self.seconds % size == 0:
                return f"{self.seconds // size}{unit}"
        return f"{self.seconds}s"


class Moment(NamedTuple):
    """Seconds since 1970."""

    at: float

    def __str__(self) -> str:
        return datetime.fromtimestamp(self.at, UTC).isoformat()


Value = str | Who | Beginning | Between | Ago | Moment


class Term(NamedTuple):
    """`key` must be one of `values`; or, negated, none of them."""

    key: str
    values: tuple[Value, ...]
    negated: bool = False

    def __str__(self) -> str:
        sign = "-" if self.negated else ""
        if self.key == TEXT:
            return sign + _word(str(self.values[0]))
        text = _states(self.values) if self.key == "is" else ",".join(map(_value_text, self.values))
        return f"{sign}{self.key}:{text}"


class Query(NamedTuple):
    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def asked_by(self, name: str) -> Query:
        """Replace `me` with the caller's name."""
        return Query(
            tuple(
                term._replace(values=tuple(name if value is Who.ME else value for value in term.values))
                for term in self.terms
            )
        )


def letter_states(query: Query) -> dict[DeadLetterState, Prospect | None]:
    """The states of dead letters that match the query's `is` terms.

    OPEN maps to a prospect if only open dead letters with that prospect match.
    """
    terms = [term for term in query.terms if term.key == "is"]
    states: dict[DeadLetterState, Prospect | None] = {}
    for state in DeadLetterState:
        prospects = [*Prospect] if state is DeadLetterState.OPEN else [None]
        matching = [
            prospect for prospect in prospects if all(_matches(term, state, prospect) for term in terms)
        ]
        if matching:
            states[state] = matching[0] if len(matching) < len(prospects) else None
    return states


def _matches(term: Term, state: DeadLetterState, prospect: Prospect | None) -> bool:
    return (state in term.values or prospect in term.values) != term.negated


class Count(NamedTuple):
    """How many rows match a query. `capped`: there are more than `number`."""

    number: int
    capped: bool

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.capped else f"{self.number:,}"


def _states(values: tuple[Value, ...]) -> str:
    return _GROUPS.get(frozenset(values)) or ",".join(str(value).lower() for value in values)  # type: ignore[arg-type]


def _value_text(value: Value) -> str:
    """Quote a string that would otherwise have a special meaning."""
    if not isinstance(value, str):
        return str(value)
    bare = _BARE.fullmatch(value) and value not in (Who.ME.value, Who.NOBODY.value)
    return value if bare else _quoted(value)


def _word(text: str) -> str:
    return text if _BARE.fullmatch(text) and ":" not in text and text[0] != "-" else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
