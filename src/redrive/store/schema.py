"""Which version the tables of a database have, and what is missing; found out without changing them."""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import SchemaError
from redrive.store.database import Session
from redrive.store.migration import Migration, migrations, pending
from redrive.store.postgres_session import PostgresSession
from redrive.store.statement import statements

_SQL = statements("schema")


class Schema(NamedTuple):
    """`version` is the newest migration that was applied, 0 without tables; `newest`, what is known here."""

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
        """What is to be applied; SchemaError where another program knows more than this one."""
        return pending(self.applied)

    def require(self, place: str) -> None:
        """Refuse to look at tables that are not as this program knows them."""
        if self.missing:
            state = f"is at version {self.version}" if self.applied else "has no tables of Redrive yet"
            raise SchemaError(
                f"the database {place} {state}, this program needs {self.newest}; run `redrive migrate`"
            )


async def schema_of(session: Session) -> Schema:
    name = session.schema if isinstance(session, PostgresSession) else ""
    newest = migrations()[-1].version
    if not await session.fetch(_SQL["ledger"], {"schema": name}):
        return Schema((), newest)
    return Schema(tuple(row[0] for row in await session.fetch(_SQL["applied"], {})), newest)
