"""SQL statements: one text per statement, in the `.sql` file of its module, for both databases.

A file consists of sections that start with `-- name: claim`. Parameters are written `:name`, tables
`redrive.runs`; `redrive.store.dialect` describes the placeholders for columns and batches. `:now` is the
start of the transaction: by the database's clock on PostgreSQL, by the injected clock on SQLite. `:clock` is
the current time, for values that must not be earlier than data the statement has just read. A section whose
name starts with `_` is a fragment, which `{_claim}` inserts into other sections.

A statement on SQLite writes only one table. A section may therefore have a second part after `;`, which is
executed for each row for which the first part returned something.

A section of the same name in `<module>.postgres.sql` replaces it on PostgreSQL; its first line says why. The
fragments of `shared.sql` and `shared.postgres.sql` can be used in every file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.resources import files
from operator import attrgetter
from typing import Any

from redrive.store.dialect import for_postgres, for_sqlite, with_columns

_SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(_\w+)\}")
_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z_0-9]*)")
_ID_TEXT = re.compile(r"\{text:([^}]+)\}")
_ARRAY = re.compile(r"CAST\(:([a-z_][a-z_0-9]*)\s+AS\s+[a-z\s]+\[\]\)")
_POSTGRES_NOW = "date_part('epoch', now())"
_POSTGRES_CLOCK = "date_part('epoch', clock_timestamp())"

MAX_COMPOSED = 512
"""How many statements composed at run time are cached."""


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A statement for one database. `names` are its parameters, in order.

    timed   the current time must be passed before all other parameters
    arrays  the parameters that are arrays; with any, one execution serves a whole batch
    then    the statement to execute for each row for which this one returned something
    """

    name: str
    text: str
    names: tuple[str, ...]
    timed: bool = False
    arrays: frozenset[str] = frozenset()
    then: SqlQuery | None = None

    @property
    def batched(self) -> bool:
        return bool(self.arrays)

    def arguments(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([parameters[name] for name in self.names])

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the parameters of a whole batch: a list per array, and one common value otherwise."""
        columns = zip(self.names, zip(*rows, strict=True), strict=True)
        return [
            list(column) if name in self.arrays else self._shared(name, column) for name, column in columns
        ]

    def _shared(self, name: str, column: tuple[Any, ...]) -> Any:
        if column.count(column[0]) != len(column):
            raise ValueError(f"the rows of a batch of {self.name!r} must have the same {name!r}")
        return column[0]

    @property
    def reader(self) -> Callable[[Any], tuple[Any, ...]]:
        """A function that reads the parameters from the attributes of an object."""
        return _reader(self.names)


@lru_cache(maxsize=MAX_COMPOSED)
def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        only = attrgetter(names[0])
        return lambda row: (only(row),)
    return attrgetter(*names)


@dataclass(frozen=True, slots=True)
class Statement:
    sqlite: SqlQuery
    postgres: SqlQuery


class Statements(Mapping[str, Statement]):
    """All statements of one module by name, read on first access."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._row_classes: dict[str, type] = {}
        self._loading = False

    def declare(self, row_classes: Iterable[type]) -> None:
        """Let placeholders in the module's SQL name these classes."""
        self._row_classes |= {row_class.__name__: row_class for row_class in row_classes}

    def row_class(self, name: str) -> type:
        if name not in self._row_classes:
            import_module(f"redrive.store.{self._module}")  # declares them
        return self._row_classes[name]

    def __getitem__(self, name: str) -> Statement:
        return self._statements[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)

    @cached_property
    def _statements(self) -> dict[str, Statement]:
        module = self._module
        if self._loading:
            raise RuntimeError(f"redrive.store.{module} must not use a statement while it is imported")
        self._loading = True
        texts, overrides = _texts(f"{module}.sql"), _texts(f"{module}.postgres.sql")
        unknown = {name for name in overrides.keys() - texts.keys() if not name.startswith("_")}
        if unknown:
            raise LookupError(
                f"{module}.postgres.sql overrides statements that {module}.sql does not have: {unknown}"
            )
        sqlite, postgres = _filled(_sections_of(module)), _filled(_sections_of(module, postgres=True))
        return {name: self._rendered(name, sqlite[name], postgres[name]) for name in sqlite}

    def _rendered(self, name: str, sqlite: str, postgres: str) -> Statement:
        sqlite, postgres = with_columns(sqlite, self.row_class), with_columns(postgres, self.row_class)
        return Statement(_sqlite(name, sqlite), _postgres(name, for_postgres(postgres, self.row_class)))


_MODULES: dict[str, Statements] = {}


def statements(module: str, *row_classes: type) -> Statements:
    """Return the statements of a module, whose placeholders may name `row_classes`."""
    found = _MODULES.setdefault(module, Statements(module))
    found.declare(row_classes)
    return found


def load_statements() -> None:
    """Read the statements of every imported module now, so that the first work does not wait for it."""
    for module in _MODULES.values():
        len(module)


def statement(module: str, name: str) -> Statement:
    return statements(module)[name]


def template(module: str, name: str, *, postgres: bool = False) -> str:
    """Return the rendered text of a fragment, for composing a statement at run time."""
    text = _sections_of(module, postgres=postgres)[name]
    for fragment in _FRAGMENT.findall(text):
        text = text.replace(f"{{{fragment}}}", template(module, fragment, postgres=postgres))
    return with_columns(text, statements(module).row_class)


def _sections_of(module: str, *, postgres: bool = False) -> dict[str, str]:
    """Return all sections that a module can use on one database, by name."""
    names = ("shared", "shared.postgres", module, f"{module}.postgres")
    chosen = names if postgres else names[::2]
    return {name: text for file in chosen for name, text in _texts(f"{file}.sql").items()}


@lru_cache(maxsize=MAX_COMPOSED)
def compose(name: str, text: str, postgres: str | None = None) -> Statement:
    """Build a statement from text composed at run time. The text must not contain values: pass parameters."""
    return Statement(_sqlite(name, text), _postgres(name, text if postgres is None else postgres))


def _sections(file: str) -> Iterator[tuple[str, str]]:
    place = files("redrive.store") / "sql" / file
    if not place.is_file():
        return
    _, *parts = _SECTION.split(place.read_text(encoding="utf-8"))
    yield from zip(parts[::2], map(str.strip, parts[1::2]), strict=True)


def _texts(file: str) -> dict[str, str]:
    """Return the sections of a file by name, without comments."""
    return {name: _COMMENT.sub("", text) for name, text in _sections(file)}


def _filled(sections: Mapping[str, str]) -> dict[str, str]:
    """Return the statements with their fragments inserted."""
    fragments = {name: text for name, text in sections.items() if name.startswith("_")}
    statements = {}
    for name in sections.keys() - fragments.keys():
        text = sections[name]
        while names := [fragment for fragment in _FRAGMENT.findall(text) if fragment in fragments]:
            for fragment in names:
                text = text.replace(f"{{{fragment}}}", fragments[fragment])
        statements[name] = text
    return statements


def _sqlite(name: str, text: str) -> SqlQuery:
    text, _, rest = text.partition(";\n")
    text = for_sqlite(_ID_TEXT.sub(r"\1", text))
    timed = ":now" in text
    names = _names(text.replace(":now", "?1"))
    first = 2 if timed else 1
    numbered = _PARAMETER.sub(lambda match: f"?{names.index(match[1]) + first}", text.replace(":now", "?1"))
    return SqlQuery(name, numbered, names, timed, then=_sqlite(name, rest) if rest else None)


def _postgres(name: str, text: str) -> SqlQuery:
    text = _ID_TEXT.sub(r"encode(uuid_send(\1), 'hex')", text)
    text = text.replace(":now", _POSTGRES_NOW).replace(":clock", _POSTGRES_CLOCK)
    names = _names(text)
    numbered = _PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text)
    return SqlQuery(name, numbered, names, arrays=frozenset(_ARRAY.findall(text)))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_PARAMETER.findall(text)))
