"""The store: all persistent data of Redrive, one class per kind of object, on either database."""

from __future__ import annotations

from redrive.store.api_keys import ApiKeys
from redrive.store.audit import AuditStore
from redrive.store.automatic_redrive import Redrives
from redrive.store.bulk_replays import BulkReplayStore
from redrive.store.database import Database, Session
from redrive.store.dead_letter_writer import DeadLetterWriter
from redrive.store.dead_letters import DeadLetterStore
from redrive.store.event_listing import EventListing
from redrive.store.event_runs import EventRuns
from redrive.store.events import EventStore
from redrive.store.groups import Groups
from redrive.store.idempotency import IdempotencyKeys
from redrive.store.ids import IdStore
from redrive.store.leases import Leases
from redrive.store.limits import Limits
from redrive.store.memberships import Memberships
from redrive.store.one_time import OneTimeTokens
from redrive.store.opening import Opening, OpeningSession
from redrive.store.organizations import Organizations
from redrive.store.outbox import Outbox
from redrive.store.rebuilds import RebuildStore
from redrive.store.records import Records
from redrive.store.replays import ReplayStore
from redrive.store.run_listing import RunListing
from redrive.store.runs import RunStore
from redrive.store.saved_views import SavedViewStore
from redrive.store.sessions import Sessions
from redrive.store.statement import statements
from redrive.store.strategies import Strategies
from redrive.store.streams import StreamStore
from redrive.store.tallies import Tallies
from redrive.store.users import Users

_SQL = statements("store")


class Store:
    """All data in one database, or the part of it that one organization may see.

    `database` is the whole database or the session of a tenant. The first statement opens it.
    """

    def __init__(
        self,
        database: Database,
        *,
        tenant: Session | None = None,
        opening: Opening | None = None,
    ) -> None:
        self._whole = database
        self.open = Opening(database) if opening is None else opening
        self.database = session = OpeningSession(database if tenant is None else tenant, self.open)
        self.hint = database.hint
        self.leases = Leases(session)
        self.limits = Limits(session)
        self.audit = AuditStore(session)
        self.tallies = Tallies(session)
        self.groups = Groups(session)
        self.replays = ReplayStore(session, self.audit)
        self.ids = IdStore(session)
        self.runs = RunStore(session, self.replays, self.audit)
        self.run_lists = RunListing(session)
        self.dead_letters = DeadLetterStore(session)
        self.operations = BulkReplayStore(session)
        self.redrives = Redrives(session)
        self.idempotency = IdempotencyKeys(session)
        self.saved_views = SavedViewStore(session)
        self.strategies = Strategies(session)
        self.letter_writer = DeadLetterWriter(session, self.groups, self.audit)
        self.records = Records(session, self.replays, self.letter_writer)
        self.events = EventStore(session)
        self.event_lists = EventListing(session)
        self.event_runs = EventRuns(session)
        self.rebuilds = RebuildStore(session)
        self.outbox = Outbox(session)
        self.streams = StreamStore(session)
        self.organizations = Organizations(session)
        self.users = Users(session)
        self.memberships = Memberships(session)
        self.api_keys = ApiKeys(session)
        self.sessions = Sessions(session)
        self.one_time = OneTimeTokens(session)

    def tenant(self, org: str, seconds: float) -> Store:
        """Return a store for the requests of one organization; statements time out after `seconds`."""
        session = self._whole.tenant(org, seconds)
        return Store(self._whole, tenant=session, opening=self.open)

    def require_isolated(self, org: str) -> None:
        self._whole.require_isolated(org)

    async def probe(self) -> None:
        """Write without changing data; raises StoreError if the database cannot be written."""
        await self.database.fetch(_SQL["write"], {})

    async def close(self) -> None:
        self.open.forget()
        await self._whole.close()
