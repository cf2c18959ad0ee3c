"""Migrations: the versions of the tables, forward only, and which of them a database has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from redrive.errors import SchemaError
from redrive.store.database import Session
from redrive.store.statement import statements

_SQL = statements("migration")
_ONLY_POSTGRES = re.compile(r"/\* postgres: (.*?) \*/")

CREATE_LEDGER = """CREATE TABLE IF NOT EXISTS redrive.migrations (
    version integer PRIMARY KEY, name text NOT NULL, applied_at double precision NOT NULL
)"""
READ_LEDGER = "SELECT version FROM redrive.migrations ORDER BY version"


class Migration(NamedTuple):
    """`sqlite` and `postgres` are what only one of them is given, after the rest: triggers, above all."""

    version: int
    name: str
    text: str
    sqlite: str = ""
    postgres: str = ""

    def for_sqlite(self) -> list[str]:
        return _statements(self.text.replace("redrive.", "") + self.sqlite)

    def for_postgres(self) -> list[str]:
        return _statements(_ONLY_POSTGRES.sub(r"\1", self.text) + self.postgres)


@cache
def migrations() -> tuple[Migration, ...]:
    found = (files("redrive.store") / "migrations").iterdir()
    texts = {file.name: file.read_text(encoding="utf-8") for file in found if file.name.endswith(".sql")}
    return tuple(
        _migration(name.removesuffix(".sql"), texts) for name in sorted(texts) if name.count(".") == 1
    )


def _migration(name: str, texts: Mapping[str, str]) -> Migration:
    own = (texts.get(f"{name}.{database}.sql", "") for database in ("sqlite", "postgres"))
    return Migration(int(name[:4]), name[5:], texts[f"{name}.sql"], *own)


def pending(applied: Iterable[int]) -> list[Migration]:
    """The migrations still to be applied. Tables of a newer program are refused."""
    done = set(applied)
    newest = migrations()[-1].version
    if done and max(done) > newest:
        raise SchemaError(
            f"the database is at version {max(done)}, this program knows up to {newest}; "
            f"install the newer Redrive that has migrated it"
        )
    return [each for each in migrations() if each.version not in done]


class Schema(NamedTuple):
    """The version of the tables in a database.

    `version` is the newest migration that was applied, 0 without tables; `newest` is the last known here.
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
        return not self.is_newer and not self.missing

    @property
    def missing(self) -> list[Migration]:
        """The migrations still to be applied; SchemaError where a newer program has migrated the tables."""
        return pending(self.applied)

    def require(self, place: str) -> None:
        """Raise SchemaError unless the tables are as this program knows them."""
        if self.missing:
            state = f"is at version {self.version}" if self.applied else "has no tables of Redrive yet"
            raise SchemaError(
                f"the database {place} {state}, this program needs {self.newest}; run `redrive migrate`"
            )


async def schema_of(session: Session) -> Schema:
    """Find out which migrations were applied, without changing anything."""
    name = getattr(session, "schema", "")  # PostgreSQL has one
    newest = migrations()[-1].version
    if not await session.fetch(_SQL["ledger"], {"schema": name}):
        return Schema((), newest)
    return Schema(tuple(row[0] for row in await session.fetch(_SQL["applied"], {})), newest)


def _statements(text: str) -> list[str]:
    return [part.strip() for part in text.split(";\n") if part.strip()]
