"""Every write of a worker takes effect only under the worker's own lease (I4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.store.build import (
    EXPIRED,
    advanced,
    advanced_in_place,
    claimed,
    column,
    completed,
    enqueued,
    full,
    holder,
    parked,
    places,
    rescheduled,
    step_row,
    stopped,
    tables,
)

from redrive.model.claim import Claim
from redrive.store.database import Database
from redrive.store.leases import Renewal
from redrive.store.record import Advanced, Change, Completed, CompletedPartly, Occupied, Progress, Record
from redrive.store.statement import statement
from redrive.store.store import Store

Write = Callable[[Store, Claim], Awaitable[bool]]


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def completed_partly(claim: Claim) -> Change:
    return CompletedPartly(id=claim.id, token=claim.token, epoch=claim.epoch)


def recording(make: Callable[[Claim], Change]) -> Write:
    async def write(store: Store, claim: Claim) -> bool:
        return bool(await store.records.record([Record(make(claim))]))

    return write


def finishing(make: Callable[[Claim], Completed | Advanced]) -> Write:
    async def write(store: Store, claim: Claim) -> bool:
        return bool(await store.records.finished_steps([make(claim)], [step_row(claim)]).write())

    return write


async def read_slots(store: Store, claim: Claim) -> bool:
    async with store.database.transaction() as session:
        wanted = Occupied(id=claim.id, token=claim.token, epoch=claim.epoch, slots=None)
        return bool(await store.records.occupied(session, [wanted]))


async def note_slots(store: Store, claim: Claim) -> bool:
    before = await tables(store.database)
    async with store.database.transaction() as session:
        noted = Occupied(id=claim.id, token=claim.token, epoch=claim.epoch, slots='["mail"]')
        await store.records.occupy(session, [noted])
    return await tables(store.database) != before


async def note_progress(store: Store, claim: Claim) -> bool:
    before = await tables(store.database)
    noted = Progress(id=claim.id, token=claim.token, epoch=claim.epoch, progress="1")
    await store.records.note_progress([noted])
    return await tables(store.database) != before


async def begin_alone(store: Store, claim: Claim) -> bool:
    return await store.leases.begin_alone(claim)


WRITES: dict[str, Write] = {
    "complete": recording(completed),
    "complete_step": finishing(completed),
    "complete_partly": recording(completed_partly),
    "advance": recording(advanced_in_place),
    "advance_step": finishing(advanced_in_place),
    "hand_over": recording(advanced),
    "reschedule": recording(rescheduled),
    "stop": recording(stopped),
    "park": recording(parked),
    "occupied": read_slots,
    "occupy": note_slots,
    "progress": note_progress,
    "begin_alone": begin_alone,
}


async def another_run(store: Store, claim: Claim) -> Claim:
    """All runs of one claim carry the same token."""
    return claim.replace(id="another run")


async def reclaimed(store: Store, claim: Claim) -> Claim:
    assert len(await store.leases.reclaim(999_999, 60.0, 1)) == 1
    return claim


async def gone_on(store: Store, claim: Claim) -> Claim:
    assert await store.records.record([Record(advanced_in_place(claim))])
    return claim


async def given_back(store: Store, claim: Claim) -> Claim:
    assert await store.records.record([Record(rescheduled(claim))])
    return claim


LOSSES: dict[str, Callable[[Store, Claim], Awaitable[Claim]]] = {
    "id": another_run,
    "token": reclaimed,
    "epoch": gone_on,
    "place": given_back,
}


@pytest.mark.parametrize("part", LOSSES)
@pytest.mark.parametrize("write", WRITES)
async def test_a_write_counts_under_its_own_lease_only_i4(store: Store, write: str, part: str) -> None:
    claim = await LOSSES[part](store, await claimed(store, EXPIRED))
    before = await tables(store.database)

    assert not await WRITES[write](store, claim)

    assert await tables(store.database) == before


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_counts_under_its_own_lease(store: Store, write: str) -> None:
    """Without this counterpart the tests above would prove nothing."""
    assert await WRITES[write](store, await claimed(store))


async def test_a_step_that_cannot_continue_in_place_is_handed_over(store: Store, database: Database) -> None:
    claim = await claimed(store)

    assert places(await store.records.record([Record(advanced(claim))])) == {claim.id: "ready"}

    assert await column(database, claim.id, "place", "leased_until") == ("ready", None)


# Renewals


async def test_a_renewal_prolongs_the_lease_of_its_run_only_p7(store: Store, database: Database) -> None:
    """All runs of one claim carry the same token."""
    await enqueued(store, 2)
    mine, other = await store.leases.claim("default", 2, holder(5.0))
    before = await column(database, other.id, "leased_until")

    assert await store.leases.renew([Renewal(mine.id, mine.token, 60.0)]) == {(mine.id, mine.token): True}

    assert await column(database, other.id, "leased_until") == before


async def test_an_expired_lease_is_not_kept_p7(store: Store, database: Database) -> None:
    """Leases that a renewal skipped are checked separately."""
    await enqueued(store, 4)
    kept, other, taken, done = await store.leases.claim("default", 4, holder())
    over = await claimed(store, EXPIRED)
    await store.records.record([Record(completed(done))])
    asked = [
        Renewal(kept.id, kept.token, 60.0),
        Renewal(taken.id, taken.token + 1_000_000, 60.0),
        Renewal(done.id, done.token, 60.0),
        Renewal(over.id, over.token, 60.0),
    ]

    rows = await store.database.fetch_many(statement("leases", "kept"), asked)

    assert [tuple(row) for row in rows] == [(kept.id, kept.token)]
    assert other.token == kept.token


# Writes that accompany a record


async def test_nothing_is_written_with_a_fenced_off_record_i4(store: Store, database: Database) -> None:
    claim = await reclaimed(store, await claimed(store, EXPIRED))
    before = await tables(database)

    assert await store.records.record([full(stopped(claim), claim)]) == {}

    assert await tables(database) == before
