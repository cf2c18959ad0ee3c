"""Read and judge the versions of the program and of the tables, without creating or changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from redrive.doctor.finding import Finding, bad, ok
from redrive.errors import NotFoundError
from redrive.model.finding import FindingCode
from redrive.store.database import Database
from redrive.store.migration import Schema, migrations, schema_of
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite_reader import place_of, reading

__all__ = ["DatabaseVersion", "judge_program", "judge_schema", "missing_file", "place_of", "read_version"]

MIGRATE = "redrive migrate"


class DatabaseVersion(NamedTuple):
    """The version of a database's tables.

    place   names the database without secrets
    schema  None if there is no database yet
    newest  the version that this program needs
    """

    place: str
    schema: Schema | None
    newest: int

    @property
    def version(self) -> int:
        return 0 if self.schema is None else self.schema.version

    @property
    def missing(self) -> list[tuple[int, str]]:
        """Version and name of each pending migration; SchemaError if the program is too old for them."""
        missing = migrations() if self.schema is None else self.schema.missing
        return [(migration.version, migration.name.replace("_", " ")) for migration in missing]

    @property
    def needs_drained_workers(self) -> bool:
        """Whether all workers must stop before the migration."""
        missing = () if self.schema is None else self.schema.missing
        return any(migration.needs_drained_workers for migration in missing)

    def require_current(self) -> None:
        """Raise SchemaError unless the tables have the version that this program needs."""
        (self.schema or Schema((), self.newest)).require(self.place)


async def read_version(database: Database) -> DatabaseVersion:
    """Read the version over a temporary read-only connection."""
    place, newest = place_of(database), migrations()[-1].version
    reader = reading(database)
    try:
        return DatabaseVersion(place, await schema_of(reader), newest)
    except NotFoundError:
        return DatabaseVersion(place, None, newest)
    finally:
        if not reader.in_memory:
            await reader.close()


async def administrator_statements(database: Database) -> list[str]:
    """List the statements that an administrator has to run, because the database user may not."""
    return await database.administrator_statements() if isinstance(database, PostgresDatabase) else []


def missing_file(database: Database) -> str | None:
    """Return the path of a SQLite file that doesn't exist, often because the directory is wrong."""
    path: str | None = getattr(database, "path", None)
    return None if path is None or Path(path).exists() else path


def judge_program(redrive: str, python: str) -> Finding:
    return ok(FindingCode.PROGRAM, redrive=redrive, python=python)


def judge_schema(schema: Schema) -> Finding:
    version, newest = schema.version, schema.newest
    if schema.is_newer:
        upgrade = "pip install --upgrade redrive"
        return bad(FindingCode.SCHEMA_NEWER, upgrade, version=version, newest=newest)
    if schema.is_current:
        return ok(FindingCode.SCHEMA_CURRENT, version=version)
    if schema.applied:
        return bad(FindingCode.SCHEMA_OLDER, MIGRATE, version=version, newest=newest)
    return bad(FindingCode.SCHEMA_MISSING, MIGRATE)
