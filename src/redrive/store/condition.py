"""Translate terms of a query into SQL conditions on dead letters, failure groups or runs, with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard

from redrive.model.id import id_range
from redrive.model.query import TEXT, Ago, Beginning, Between, Moment, Term, Value, Who
from redrive.policy.codec import encode

TAG = "tag"

LETTER_COLUMNS = MappingProxyType(
    {
        "category": "category",
        "class": "error_class",
        "step": "step",
        "task": "task",
        "workflow": "workflow",
        "queue": "queue",
        "fp": "fingerprint",
        "error": "error_type",
        "code": "public_code",
        "status": "http_status",
        "run": "run_id",
        "id": "id",
        "correlation": "correlation_id",
        "assignee": "assignee",
        "template": "template",
        "breaker": "breaker",
        "version": "code_version",
        "effect": "effect",
        "redrive": "redrive",
        "attempts": "attempts",
        "replays": "replay_count",
        "redrives": "redrives",
        "priority": "priority",
        "since": "created_at",
        "until": "created_at",
    }
)

RUN_COLUMNS = MappingProxyType(
    {
        "workflow": "workflow",
        "queue": "queue",
        "id": "id",
        "key": "idempotency_key",
        "correlation": "correlation_id",
        "version": "code_version",
        "attempts": "attempt",
        "priority": "priority",
        "since": "submitted_at",
        "until": "submitted_at",
    }
)

EVENT_COLUMNS = MappingProxyType(
    {
        "stream": "event.stream",
        "type": "event.type",
        "source": "event.source",
        "user": "event.user_id",
        "id": "event.id",
        "key": "event.dedupe_key",
        "projector": "projection.projector",
        "since": "event.stored_at",
        "until": "event.stored_at",
    }
)

GROUP_COLUMNS = MappingProxyType(
    {
        "category": "category",
        "workflow": "workflow",
        "step": "step",
        "task": "task",
        "error": "error_type",
        "fp": "fingerprint",
        "occurrences": "occurrences",
        "since": "last_seen",
        "until": "last_seen",
    }
)

LETTER_TEXTS = ("title", "error_type", "message")
GROUP_TEXTS = ("title", "error_type")
"""Columns that a term without a key is searched in."""


class Writer:
    """Writes conditions and collects their parameters."""

    def __init__(
        self,
        parameters: dict[str, Any],
        columns: Mapping[str, str] = LETTER_COLUMNS,
        texts: Sequence[str] = LETTER_TEXTS,
    ) -> None:
        self.parameters = parameters
        self._columns = columns
        self._alike = {TEXT: texts, TAG: ("tags",)}

    def condition(self, term: Term, wrap: Callable[[str], str] = str) -> str:
        """Write the condition of a term. `wrap` may enclose the column, to keep an index from being used."""
        either = " OR ".join(self._each(term, wrap(self._columns.get(term.key, ""))))
        # A NULL column does not have any of the values: NOT alone would leave such rows out.
        return f"(({either}) IS NOT TRUE)" if term.negated else f"({either})"

    def _each(self, term: Term, column: str) -> Iterator[str]:
        listed = [value for value in term.values if is_text(value)]
        if listed and term.key not in self._alike:
            yield f"{column} IN ({', '.join(map(self._put, listed))})"
        elif listed:
            yield from (condition for value in listed for condition in self._like(term.key, value))
        for value in term.values:
            if not is_text(value):
                yield self._other(column, term.key, value)

    def _like(self, key: str, text: str) -> Iterator[str]:
        # Tags are a JSON list of texts.
        for spelling in _spellings(encode(text) if key == TAG else text):
            name = self._put(f"%{_escaped(spelling)}%")
            yield from (f"lower({column}) LIKE {name} ESCAPE '!'" for column in self._alike[key])

    def _other(self, column: str, key: str, value: Value) -> str:
        match value:
            case Who.NOBODY:
                return f"{column} IS NULL"
            case Beginning(text) if key in _IDS:
                first, last = id_range(text)
                return f"({column} >= {self._put(first)} AND {column} <= {self._put(last)})"
            case Beginning(text):
                return _begins(column, self._put(text), self._put(text + BEYOND), self._put(len(text)))
            case Between(low, high):
                ends = ((">=", low), ("<=", high))
                return all_of([f"{column} {sign} {self._put(end)}" for sign, end in ends if end is not None])
            case Ago(seconds):
                return f"{column} {_TIMES[key]} :now - {self._put(float(seconds))}"
            case Moment(at):
                return f"{column} {_TIMES[key]} {self._put(at)}"
        raise ValueError(f"the value {value} of {key!r} must be resolved before the condition is written")

    def _put(self, value: str | float) -> str:
        name = f"value_{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"


_TIMES = MappingProxyType({"since": ">=", "until": "<"})

_IDS = ("id", "run")
"""Keys whose values are ids. PostgreSQL stores the id of a run in 16 bytes, so a prefix is a range of ids."""

BEYOND = "z"
"""Sorts after every continuation of a fingerprint in any collation, since fingerprints are hexadecimal."""


def _begins(column: str, first: str, beyond: str, length: str) -> str:
    return f"({column} >= {first} AND {column} < {beyond} AND substr({column}, 1, {length}) = {first})"


def _spellings(text: str) -> list[str]:
    """Return the forms to search for: SQLite's `lower` does not change letters beyond ASCII."""
    forms = (text.lower(), text.upper(), text.title()) if not text.isascii() else (text.lower(),)
    return list(dict.fromkeys("".join(map(_lower, form)) for form in forms))


def _lower(character: str) -> str:
    return character.lower() if character.isascii() else character


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def hidden_from_sqlite(column: str) -> str:
    """Wrap a column so that SQLite does not use its index. PostgreSQL can, and decides by its statistics."""
    return f"CAST({column} AS text)"


def is_text(value: Value) -> TypeGuard[str]:
    return isinstance(value, str)


def all_of(conditions: Sequence[str]) -> str:
    return " AND ".join(conditions)
