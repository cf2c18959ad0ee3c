"""Migrations: the versions of the tables (forward only), and the version of a database.

`migrations/` starts with the baseline, which creates all tables. `conversion/` turns the tables of version
0.1 into those of the baseline. A migration after the baseline must work while workers of the previous version
are running: see docs/internals/storage.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from redrive.errors import SchemaError
from redrive.store.database import Session
from redrive.store.statement import statements

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SQL = statements("migration")
_UUID = re.compile(r"\buuid\b(?= NOT NULL)")
_ONLY_POSTGRES = re.compile(r"/\* postgres: (.*?) \*/")

CREATE_LEDGER = """CREATE TABLE IF NOT EXISTS redrive.migrations (
    version integer PRIMARY KEY, name text NOT NULL, applied_at double precision NOT NULL
)"""
READ_LEDGER = "SELECT version FROM redrive.migrations ORDER BY version"


class Migration(NamedTuple):
    """The SQL that leads to one version.

    text                   executed on both databases
    sqlite, postgres       executed on this database, after `text`
    needs_drained_workers  no worker may run while it is applied
    """

    version: int
    name: str
    text: str
    sqlite: str = ""
    postgres: str = ""
    needs_drained_workers: bool = False

    def for_sqlite(self) -> list[str]:
        text = _UUID.sub("text", self.text.replace("redrive.", ""))
        return _statements(text + self.sqlite)

    def for_postgres(self) -> list[str]:
        return _statements(_ONLY_POSTGRES.sub(r"\1", self.text) + self.postgres)


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the baseline and the migrations after it."""
    return _read(files("redrive.store") / "migrations")


@cache
def conversion() -> tuple[Migration, ...]:
    """Return the steps that convert the tables of version 0.1 to the baseline."""
    return tuple(
        step._replace(needs_drained_workers=True) for step in _read(files("redrive.store") / "conversion")
    )


def _read(folder: Traversable) -> tuple[Migration, ...]:
    found = (file for file in folder.iterdir() if file.name.endswith(".sql"))
    texts = {file.name: file.read_text(encoding="utf-8") for file in found}
    return tuple(
        _migration(name.removesuffix(".sql"), texts) for name in sorted(texts) if name.count(".") == 1
    )


def _migration(name: str, texts: Mapping[str, str]) -> Migration:
    sqlite, postgres = (texts.get(f"{name}.{database}.sql", "") for database in ("sqlite", "postgres"))
    return Migration(int(name[:4]), name[5:], texts[f"{name}.sql"], sqlite, postgres)


def pending(applied: Iterable[int]) -> list[Migration]:
    """List the migrations to apply. Raise SchemaError for tables that this program cannot migrate."""
    version = max(applied, default=0)
    baseline, *later = migrations()
    newest = migrations()[-1].version
    if version > newest:
        raise SchemaError(
            f"the database is at version {version}, but this program supports versions up to {newest}; "
            f"install the newer Redrive that migrated it"
        )
    if version == 0:
        return [baseline, *later]
    if version < baseline.version:
        return [*_conversion_from(version), *later]
    return [migration for migration in later if migration.version > version]


def _conversion_from(version: int) -> list[Migration]:
    oldest = conversion()[0].version - 1
    if version < oldest:
        raise SchemaError(
            f"the database is at version {version}, from before Redrive 0.1; this program converts databases "
            f"from version {oldest} on. First run `redrive migrate` with Redrive 0.1, then with this version"
        )
    return [step for step in conversion() if step.version > version]


class Schema(NamedTuple):
    """The version of the tables in a database.

    `version` is the newest applied migration, 0 without tables; `newest` is the newest that this program has.
    """

    applied: tuple[int, ...]
    newest: int

    @property
    def version(self) -> int:
        return max(self.applied, default=0)

    @property
    def is_newer(self) -> bool:
        return self.version > self.newest

    @property
    def is_current(self) -> bool:
        return self.version == self.newest

    @property
    def missing(self) -> list[Migration]:
        """The migrations to apply; raises SchemaError if this program cannot apply them."""
        return pending(self.applied)

    def require(self, place: str) -> None:
        """Raise SchemaError unless the tables have the version of this program."""
        if self.missing:
            state = f"is at version {self.version}" if self.applied else "has no tables of Redrive yet"
            raise SchemaError(
                f"the database {place} {state}, but this program needs version {self.newest}; "
                f"run `redrive migrate`"
            )


async def schema_of(session: Session) -> Schema:
    """Read which migrations were applied."""
    name = getattr(session, "schema", "")  # PostgreSQL has one
    newest = migrations()[-1].version
    if not await session.fetch(_SQL["ledger"], {"schema": name}):
        return Schema((), newest)
    return Schema(tuple(row[0] for row in await session.fetch(_SQL["applied"], {})), newest)


def _statements(text: str) -> list[str]:
    return [part.strip() for part in text.split(";\n") if part.strip()]
