"""SQL statements: one text each, in the `.sql` file of its module, for both databases.

A file holds sections that begin with `-- name: claim`. Parameters are written `:name`, tables
`redrive.runs`. The present moment is `:now`: on PostgreSQL by the database's clock, on SQLite by the injected
one. It is that of the beginning of the transaction; what must not lie before something that the statement has
just read takes `:clock`. A section whose name begins with `_` is a fragment: `{_claim}` stands for it in the
others.

A section of the same name in `<module>.postgres.sql` takes its place on PostgreSQL, and its first line says
why. When that text unnests arrays, one execution serves a whole batch; what it does not take as an array is
the same for all rows of the batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from operator import attrgetter
from typing import Any

_SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z_0-9]*)")
_ARRAY = re.compile(r"CAST\(:([a-z_][a-z_0-9]*)\s+AS\s+[a-z\s]+\[\]\)")
_POSTGRES_NOW = "CAST(extract(epoch FROM now()) AS double precision)"
_POSTGRES_CLOCK = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"

MAX_COMPOSED = 512
"""How many statements that were written at run time are remembered."""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement for one database. `names` are its parameters in the order in which it takes them.

    timed   the moment has to be given too, before all others
    arrays  the parameters that it takes as arrays; with any, it serves a whole batch
    """

    name: str
    text: str
    names: tuple[str, ...]
    timed: bool = False
    arrays: frozenset[str] = frozenset()

    @property
    def batched(self) -> bool:
        return bool(self.arrays)

    def arguments(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([parameters[name] for name in self.names])

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The values of a whole batch: a list for an array, one for all for the rest."""
        columns = zip(self.names, zip(*rows, strict=True), strict=True)
        return [
            list(column) if name in self.arrays else self._shared(name, column) for name, column in columns
        ]

    def _shared(self, name: str, column: tuple[Any, ...]) -> Any:
        if column.count(column[0]) != len(column):
            raise ValueError(f"the rows of a batch of {self.name!r} must agree in {name!r}")
        return column[0]

    @property
    def reader(self) -> Callable[[Any], tuple[Any, ...]]:
        """Takes the parameters out of the attributes of an object."""
        if len(self.names) == 1:
            only = attrgetter(self.names[0])
            return lambda row: (only(row),)
        return attrgetter(*self.names)


@dataclass(frozen=True, slots=True)
class Statement:
    sqlite: Query
    postgres: Query


@cache
def statements(module: str) -> Mapping[str, Statement]:
    """All statements of one module, by name."""
    sections = dict(_sections(f"{module}.sql"))
    fragments = {name: text for name, text in sections.items() if name.startswith("_")}
    shared = dict(_filled(sections, fragments))
    others = dict(_sections(f"{module}.postgres.sql"))
    fragments |= {name: text for name, text in others.items() if name.startswith("_")}
    overrides = dict(_filled(others, fragments))
    strangers = overrides.keys() - shared.keys()
    if strangers:
        raise LookupError(f"{module}.postgres.sql overrides what {module}.sql does not have: {strangers}")
    return {
        name: Statement(_sqlite(name, text), _postgres(name, overrides.get(name, text)))
        for name, text in shared.items()
    }


def statement(module: str, name: str) -> Statement:
    return statements(module)[name]


def template(module: str, name: str, *, postgres: bool = False) -> str:
    """The text of a fragment, those that it consists of filled in: for what is written at run time."""
    fragments = dict(_sections(f"{module}.sql"))
    if postgres:
        fragments |= dict(_sections(f"{module}.postgres.sql"))
    text = fragments[name]
    for fragment in re.findall(r"\{(_\w+)\}", text):
        text = text.replace(f"{{{fragment}}}", template(module, fragment, postgres=postgres))
    return text


@lru_cache(maxsize=MAX_COMPOSED)
def written(name: str, text: str, postgres: str | None = None) -> Statement:
    """A statement out of a text that was put together at run time. Values are parameters, never text."""
    return Statement(_sqlite(name, text), _postgres(name, text if postgres is None else postgres))


def _sections(file: str) -> Iterator[tuple[str, str]]:
    place = files("redrive.store") / "sql" / file
    if not place.is_file():
        return
    _, *parts = _SECTION.split(place.read_text(encoding="utf-8"))
    yield from zip(parts[::2], map(str.strip, parts[1::2]), strict=True)


def _filled(sections: Mapping[str, str], fragments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in sections.items():
        if name not in fragments:
            for fragment, content in fragments.items():
                text = text.replace(f"{{{fragment}}}", content)
            yield name, text


def _sqlite(name: str, text: str) -> Query:
    text = text.replace("redrive.", "").replace(":clock", ":now")
    timed = ":now" in text
    names = _names(text.replace(":now", "?1"))
    first = 2 if timed else 1
    numbered = _PARAMETER.sub(lambda match: f"?{names.index(match[1]) + first}", text.replace(":now", "?1"))
    return Query(name, numbered, names, timed)


def _postgres(name: str, text: str) -> Query:
    text = text.replace(":now", _POSTGRES_NOW).replace(":clock", _POSTGRES_CLOCK)
    names = _names(text)
    numbered = _PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text)
    return Query(name, numbered, names, arrays=frozenset(_ARRAY.findall(text)))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_PARAMETER.findall(text)))
