"""The store: everything Redrive remembers, one small part a noun, on either database."""

from __future__ import annotations

from redrive.store.database import Database
from redrive.store.holds import Holds
from redrive.store.leases import Leases
from redrive.store.records import Records
from redrive.store.runs import Runs


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.runs = Runs(database)
        self.leases = Leases(database)
        self.records = Records(database)
        self.holds = Holds(database)

    async def open(self) -> None:
        """Bring the tables up to date. Everything else may be called afterwards only."""
        await self.database.migrate()

    async def close(self) -> None:
        await self.database.close()
