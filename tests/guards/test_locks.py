"""Row locks on PostgreSQL: a transaction has its run to itself and blocks no other one without need.

SQLite has one writer at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.store.build import ORG, ask, claimed, completed
from tests.store.letters import column_of, put_failed

from redrive.model.claim import Claim
from redrive.store.automatic_redrive import Due, Redrives
from redrive.store.database import Session
from redrive.store.leases import Renewal
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Occupied, Record
from redrive.store.statement import statement
from redrive.store.store import Store

PATIENCE = 3.0
QUEUE = "dlq:mail"


@pytest.fixture
async def database(postgres_database: PostgresDatabase) -> PostgresDatabase:
    return postgres_database


@pytest.fixture
async def other(postgres_database: PostgresDatabase) -> AsyncIterator[PostgresDatabase]:
    """The connections of another process."""
    database = postgres_database.another()
    yield database
    await database.close()


async def waited_for(task: asyncio.Task[Any]) -> bool:
    await asyncio.wait({task}, timeout=PATIENCE)
    return not task.done()


async def test_a_renewal_does_not_wait_for_a_record(
    database: PostgresDatabase, other: PostgresDatabase
) -> None:
    """The lease is kept but not renewed: the record may end it."""
    claim = await claimed(store := Store(database))
    async with database.transaction() as session:
        assert await store.records.record_within(session, [Record(completed(claim))])
        renewal = Renewal(claim.id, claim.token, 60.0)
        renewing = asyncio.create_task(Store(other).leases.renew([renewal]))
        waited = await waited_for(renewing)

    assert await renewing == {(claim.id, claim.token): False}
    assert not waited


# Statements that lock rows


class Situation:
    """A failed run with its dead letter, and a run in progress: the rows that the statements lock."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.store = Store(database)
        self.database = database
        self.letter_id = self.run_id = ""
        self.claim: Claim

    async def make(self) -> None:
        self.letter_id = await put_failed(
            self.database, redrive="immediate", next_redrive_at=1.0, queue=QUEUE
        )
        self.run_id = await column_of(self.database, self.letter_id, "run_id")
        text = "UPDATE redrive.run_inputs SET idempotency_key = 'key', request_hash = 'hash' WHERE id = :id"
        await ask(self.database, text, id=self.run_id)
        self.claim = await claimed(self.store)

    async def failed(self, session: Session) -> object:
        return await self.store.leases.failed(session, self.run_id, ORG)

    async def occupied(self, session: Session) -> object:
        fence = Occupied(id=self.claim.id, token=self.claim.token, epoch=self.claim.epoch, slots=None)
        return await self.store.records.occupied(session, [fence])

    async def expired(self, session: Session) -> object:
        return await session.fetch(statement("runs", "expired"), {"age": 1.0, "most": 10})

    async def expired_failures(self, session: Session) -> object:
        return await session.fetch(statement("runs", "expired_failures"), {"age": 1.0, "most": 10})

    async def lock_runs(self, session: Session) -> object:
        await self.store.dead_letters.lock_runs(session, [self.letter_id], ORG)
        return True

    async def lock_removable(self, session: Session) -> object:
        scope = {"org": ORG, "queue": QUEUE}
        return await session.fetch(statement("external_failures", "lock_removable"), scope)

    async def lock_known(self, session: Session) -> object:
        scope = {"org": ORG, "key": "key"}
        return await session.fetch(statement("external_failures", "lock_known"), scope)

    async def lock_due(self, session: Session) -> object:
        due = Due(self.letter_id, ORG, self.run_id, 0)
        return await Redrives(session).lock_due(session, [due])


async def failed_and_executed(database: PostgresDatabase, name: str) -> Situation:
    situation = Situation(database)
    await situation.make()
    if name == "expired":
        await ask(database, "UPDATE redrive.ended SET state = 'SUCCESS'")
    if name == "expired_failures":
        await ask(database, "UPDATE redrive.dead_letters SET state = 'RESOLVED', updated_at = 1.0")
    return situation


Locking = Callable[[Situation, Session], Awaitable[object]]
LOCKING: dict[str, tuple[Locking, str]] = {
    "failed": (Situation.failed, "ended"),
    "occupied": (Situation.occupied, "leases"),
    "expired": (Situation.expired, "ended"),
    "expired_failures": (Situation.expired_failures, "ended"),
    "lock_runs": (Situation.lock_runs, "ended"),
    "lock_removable": (Situation.lock_removable, "ended"),
    "lock_known": (Situation.lock_known, "run_inputs"),
    "lock_due": (Situation.lock_due, "ended"),
    "lock_due, the letter": (Situation.lock_due, "dead_letters"),
}
"""Each statement with the table whose row it must lock."""


@pytest.mark.parametrize("name", LOCKING)
async def test_locked_rows_stay_locked_until_the_transaction_ends(
    database: PostgresDatabase, other: PostgresDatabase, name: str
) -> None:
    locking, table = LOCKING[name]
    situation = await failed_and_executed(database, name)
    ids = {"leases": situation.claim.id, "dead_letters": situation.letter_id}
    free = f"SELECT id FROM redrive.{table} WHERE id = :id FOR UPDATE SKIP LOCKED"
    own = ids.get(table, situation.run_id)
    assert await ask(other, free, id=own) == [(own,)]
    async with database.transaction() as session:
        assert await locking(situation, session)

        assert await ask(other, free, id=own) == []


PASSING_OVER = ("expired", "expired_failures", "lock_due", "lock_due, the letter")


@pytest.mark.parametrize("name", PASSING_OVER)
async def test_locked_rows_are_skipped(
    database: PostgresDatabase, other: PostgresDatabase, name: str
) -> None:
    locking, table = LOCKING[name]
    situation = await failed_and_executed(database, name)

    async def look() -> object:
        async with other.transaction() as session:
            return await locking(situation, session)

    async with database.transaction() as session:
        assert await ask(session, f"SELECT id FROM redrive.{table} FOR UPDATE")
        looking = asyncio.create_task(look())
        waited = await waited_for(looking)

    assert await looking == []
    assert not waited
