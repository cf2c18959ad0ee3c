"""The store: everything Redrive remembers, one small part a noun, on either database."""

from __future__ import annotations

from redrive.store.api_keys import ApiKeys
from redrive.store.audit import AuditStore
from redrive.store.database import Database
from redrive.store.dead_letter_writer import DeadLetterWriter
from redrive.store.dead_letters import DeadLetterStore
from redrive.store.groups import Groups
from redrive.store.idempotency import IdempotencyKeys
from redrive.store.leases import Leases
from redrive.store.limits import Limits
from redrive.store.memberships import Memberships
from redrive.store.one_time import OneTimeTokens
from redrive.store.operations import OperationStore
from redrive.store.organizations import Organizations
from redrive.store.records import Records
from redrive.store.redriving import Redrives
from redrive.store.replays import ReplayStore
from redrive.store.run_listing import RunListing
from redrive.store.runs import Runs
from redrive.store.saved_views import SavedViewStore
from redrive.store.sessions import Sessions
from redrive.store.statement import load_statements, statements
from redrive.store.tallies import Tallies
from redrive.store.users import Users

_SQL = statements("store")


class Store:
    """`max_letters` bounds the live dead letters of an organization; None: no limit."""

    def __init__(self, database: Database, max_letters: int | None = None) -> None:
        self.database = database
        self.leases = Leases(database)
        self.limits = Limits(database)
        self.audit = AuditStore(database)
        self.tallies = Tallies(database)
        self.groups = Groups(database)
        self.replays = ReplayStore(database, self.audit)
        self.runs = Runs(database, self.replays, self.audit)
        self.run_lists = RunListing(database)
        self.dead_letters = DeadLetterStore(database)
        self.operations = OperationStore(database)
        self.redrives = Redrives(database)
        self.idempotency = IdempotencyKeys(database)
        self.saved_views = SavedViewStore(database)
        self.letter_writer = DeadLetterWriter(database, self.limits, self.groups, self.audit, max_letters)
        self.records = Records(database, self.replays, self.letter_writer)
        self.organizations = Organizations(database)
        self.users = Users(database)
        self.memberships = Memberships(database)
        self.api_keys = ApiKeys(database)
        self.sessions = Sessions(database)
        self.one_time = OneTimeTokens(database)

    async def open(self) -> None:
        """Bring the tables up to date. Everything else may be called afterwards only."""
        load_statements()
        await self.database.migrate()

    async def probe(self) -> None:
        """Write something that changes nothing: StoreError where that cannot be done."""
        await self.database.fetch(_SQL["write"], {})

    async def close(self) -> None:
        await self.database.close()
