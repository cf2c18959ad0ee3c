"""The query languages of dead letters, failure groups, runs and events: keys, and how values are parsed.

Each key has a reader, which rejects an invalid value with a message that says what it expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, NoReturn, TypeAlias

from redrive.errors import InvalidValueError, QueryWordError
from redrive.model.alias import DEAD_LETTER_ALIASES, RUN_ALIASES
from redrive.model.dead_letter import CLOSED, HEALS_ITSELF, LIVE, NEEDS_YOU, DeadLetterState, Prospect
from redrive.model.failure import Category, ErrorClass
from redrive.model.failure_group import REGRESSED, GroupState
from redrive.model.id import ID_LENGTH, MIN_PREFIX_LENGTH, prefix_of
from redrive.model.query import Ago, Beginning, Between, Moment, Value, Who
from redrive.model.run import ENDED_RUNS, FAILED_RUNS, LIVE_RUNS, RunPosition, RunState
from redrive.model.step import Effect
from redrive.model.stream import UNFINISHED_PROJECTIONS, ProjectionStatus
from redrive.policy.fingerprint import VERSION
from redrive.policy.presets import REDRIVE_POLICIES
from redrive.words.suggestion import closest, suggest
from redrive.words.time import parse_duration

_COMPARED = re.compile(r"(>=|<=|>|<|=)?(-?[0-9]{1,9})")
_SPAN = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})")
_FINGERPRINT = re.compile(r"(?:v[0-9]{1,3}:)?([0-9a-f]+)")
_FULL = 40

_STATES: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {state.lower(): (state,) for state in DeadLetterState}
    | {word: (state,) for word, state in DEAD_LETTER_ALIASES.items()}
    | {prospect.lower(): (prospect,) for prospect in Prospect}
    | {"needs-you": NEEDS_YOU, "heals-itself": HEALS_ITSELF}
    | {"live": LIVE, "closed": CLOSED, "any": tuple(DeadLetterState)}
)


class Word(NamedTuple):
    """A value as written, with its position, counted from 1."""

    text: str
    quoted: bool
    key: str
    position: int

    def refuse(self, allowed: str) -> NoReturn:
        raise InvalidValueError(self._unknown(allowed))

    def reject_unknown(self, known: Iterable[str], aliases: Container[str] = ()) -> NoReturn:
        """Suggest a known value, or list those that are not aliases of others."""
        known = list(known)
        listed = [name for name in known if name not in aliases]
        raise QueryWordError(
            self._unknown(suggest(self.text, known, otherwise=suggest("", listed))),
            word=self.text,
            position=self.position,
            suggestion=closest(self.text, known),
        )

    def _unknown(self, allowed: str) -> str:
        return f"unknown value {self.text!r} of {self.key!r} at position {self.position}; {allowed}"


Reader: TypeAlias = Callable[[Word], tuple[Value, ...]]


class Language(NamedTuple):
    """The keys for one kind of object, with their readers; `has_text`: terms without a key are allowed.

    `elsewhere` contains keys that only another kind of object has, with the name of that kind.
    """

    noun: str
    readers: Mapping[str, Reader]
    has_text: bool = True
    elsewhere: Mapping[str, str] = MappingProxyType({})


def _read_text(word: Word) -> tuple[Value, ...]:
    return (word.text,) if word.text else word.refuse("it is empty")


def _read_choice(choices: Iterable[str], word: Word) -> tuple[Value, ...]:
    known = [str(choice) for choice in choices]
    return (word.text.lower(),) if word.text.lower() in known else word.reject_unknown(known)


def _one_of_states(states: Mapping[str, tuple[Value, ...]], aliases: Iterable[str] = ()) -> Reader:
    """Read a word of the mapping. An error does not list the aliases, which are words of other products."""
    hidden = frozenset(aliases) - {str(value).lower() for values in states.values() for value in values}
    return lambda word: states.get(word.text.lower()) or word.reject_unknown(states, hidden)


def _read_redrive(word: Word) -> tuple[Value, ...]:
    return (
        (word.text,)
        if word.text.startswith("custom:")
        else _read_choice((*REDRIVE_POLICIES, "custom:…"), word)
    )


def _read_assignee(word: Word) -> tuple[Value, ...]:
    named = word.quoted or word.text not in (Who.ME.value, Who.NOBODY.value)
    return _read_text(word) if named else (Who(word.text),)


def _read_fingerprint(word: Word) -> tuple[Value, ...]:
    found = _FINGERPRINT.fullmatch(word.text.lower())
    if found is None or not MIN_PREFIX_LENGTH <= len(found[1]) <= _FULL:
        word.refuse(f"expected a fingerprint, or at least its first {MIN_PREFIX_LENGTH} digits")
    whole = found[0] if found[0].startswith("v") else f"{VERSION}:{found[1]}"
    return (whole if len(found[1]) == _FULL else Beginning(whole),)


def _read_id(word: Word) -> tuple[Value, ...]:
    prefix = prefix_of(word.text)
    if prefix is None or len(prefix) == ID_LENGTH:
        return _read_text(word)
    return (Beginning(prefix),)


def _read_number(word: Word) -> tuple[Value, ...]:
    span, compared = _SPAN.fullmatch(word.text), _COMPARED.fullmatch(word.text)
    if span and int(span[1]) <= int(span[2]):
        return (Between(int(span[1]), int(span[2])),)
    if compared is None:
        word.refuse("expected a number, such as 3, >3, >=3, <3, <=3 or 3..5")
    return (_BETWEEN[compared[1] or "="](int(compared[2])),)


_BETWEEN: MappingProxyType[str, Callable[[int], Between]] = MappingProxyType(
    {
        "=": lambda number: Between(number, number),
        ">": lambda number: Between(number + 1, None),
        ">=": lambda number: Between(number, None),
        "<": lambda number: Between(None, number - 1),
        "<=": lambda number: Between(None, number),
    }
)


def _read_time(word: Word) -> tuple[Value, ...]:
    with suppress(InvalidValueError):
        return (Ago(round(parse_duration(word.text))),)
    try:
        moment = datetime.fromisoformat(word.text)
    except ValueError:
        word.refuse("expected a time, such as 30m, 2h, 7d, 2026-11-01 or 2026-11-01T09:30:00Z")
    if not 1971 <= moment.year <= 9000:
        word.refuse("expected a year from 1971 to 9000")
    if moment.tzinfo is None and len(word.text) > len("2026-11-01"):
        word.refuse(
            "a time of day needs a time zone, such as 2026-11-01T09:30:00Z or 2026-11-01T09:30:00+02:00"
        )
    return (Moment((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()),)


def _one_of(choices: type[StrEnum]) -> Reader:
    return lambda word: _read_choice(choices, word)


TIMES = ("since", "until")

READERS: MappingProxyType[str, Reader] = MappingProxyType(
    {
        "is": _one_of_states(_STATES, DEAD_LETTER_ALIASES),
        "category": _one_of(Category),
        "class": _one_of(ErrorClass),
        "effect": _one_of(Effect),
        "redrive": _read_redrive,
        "fp": _read_fingerprint,
        "assignee": _read_assignee,
    }
    | dict.fromkeys(
        (
            *("step", "task", "workflow", "queue", "error", "code", "correlation", "tag"),
            *("template", "breaker", "version"),
        ),
        _read_text,
    )
    | dict.fromkeys(("run", "id"), _read_id)
    | dict.fromkeys(("status", "attempts", "replays", "redrives", "priority"), _read_number)
    | dict.fromkeys(TIMES, _read_time)
)

KEYS = tuple(READERS)
"""All keys of the language of dead letters."""

GROUPS_ONLY = ("group", "occurrences")
"""Keys that failure groups have and single dead letters do not."""

DEAD_LETTERS = Language("dead letters", READERS, elsewhere=dict.fromkeys(GROUPS_ONLY, "failure groups"))

RUN_WORDS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {state.lower(): (state,) for state in RunState}
    | {str(position): (position,) for position in RunPosition}
    | {word: (meaning,) for word, meaning in RUN_ALIASES.items()}
    | {"live": LIVE_RUNS, "failed": FAILED_RUNS, "ended": ENDED_RUNS, "any": tuple(RunState)}
)
"""The values of `is:`. `failed` includes every ending without success, not only the state of that name."""

_RUN_READERS: Mapping[str, Reader] = MappingProxyType(
    {"is": _one_of_states(RUN_WORDS, RUN_ALIASES)}
    | {"id": _read_id}
    | dict.fromkeys(("workflow", "queue", "key", "correlation", "tag", "version"), _read_text)
    | dict.fromkeys(("priority", "attempts"), _read_number)
    | dict.fromkeys(TIMES, _read_time)
)

RUNS = Language("runs", _RUN_READERS, has_text=False)

EVENT_WORDS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {str(status): (status,) for status in ProjectionStatus}
    | {"failed": (ProjectionStatus.FAILED, ProjectionStatus.DEAD)}
    | {"live": tuple(UNFINISHED_PROJECTIONS), "any": tuple(ProjectionStatus)}
)
"""The values of `is:`, the state of a projection. `failed` includes dead letters."""

_EVENT_READERS: Mapping[str, Reader] = MappingProxyType(
    {"is": _one_of_states(EVENT_WORDS)}
    | {"id": _read_id}
    | dict.fromkeys(("stream", "type", "source", "user", "projector", "key"), _read_text)
    | dict.fromkeys(TIMES, _read_time)
)

EVENTS = Language("events", _EVENT_READERS, has_text=False)


GROUP_WORDS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {word: (word,) for word in (*map(str.lower, GroupState), REGRESSED)}
)
"""The values of `group:`, the state of the group itself. A `regressed` group was reopened."""

SHARED = ("is", "category", "workflow", "step", "task", "error", "fp", "since", "until")
"""Keys that groups share with dead letters; `is` matches if a dead letter of the group has that state."""

_GROUP_READERS: Mapping[str, Reader] = MappingProxyType(
    {key: READERS[key] for key in SHARED}
    | {"group": _one_of_states(GROUP_WORDS), "occurrences": _read_number}
)

GROUPS = Language(
    "failure groups",
    _GROUP_READERS,
    elsewhere={key: DEAD_LETTERS.noun for key in READERS if key not in _GROUP_READERS},
)
