"""Claims, renewals, reclaims and promotions: which worker may execute a run, and until when."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import psycopg
import pytest
from tests.servers import PostgresServer
from tests.store.build import (
    DEFINITION,
    EXPIRED,
    KINDS,
    ORG,
    advanced,
    advanced_in_place,
    ask,
    buried,
    claimed,
    column,
    completed,
    enqueued,
    holder,
    new_run,
    parked,
    places,
    rescheduled,
    step_row,
    submit_at,
    tables,
    value,
)

from redrive.engine.in_flight import renew_runs
from redrive.engine.lease_renewer import LeaseRenewer
from redrive.model.claim import Claim
from redrive.store.database import Database, Session
from redrive.store.leases import Leases, Renewal
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Change, Record
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import SqlQuery, Statement, statement
from redrive.store.store import Store
from redrive.testing import VirtualClock


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@asynccontextmanager
async def several(database: Database, number: int) -> AsyncIterator[list[Store]]:
    """Return stores with separate connections, like several workers."""
    databases = [database.another() for _ in range(number)]
    try:
        yield [Store(each) for each in databases]
    finally:
        for each in databases:
            await each.close()


def renewal(claim: Claim, ttl: float = 60.0) -> Renewal:
    return Renewal(claim.id, claim.token, ttl)


async def seconds_left(database: Database, run_id: str) -> float:
    return float(
        await value(database, "SELECT leased_until - :now FROM redrive.runs WHERE id = :id", id=run_id)
    )


async def waiting(store: Store, number: int, delay: float = 60.0) -> list[str]:
    """Create runs that failed once and wait."""
    ids = await enqueued(store, number)
    claims = await store.leases.claim("default", number, holder())
    await store.records.record([Record(rescheduled(claim, delay=delay)) for claim in claims])
    return ids


# Claiming


async def test_claimed_in_order_of_priority_then_submission_then_id_d6(
    store: Store, database: Database
) -> None:
    runs = [new_run(id=f"run {number}", priority=number % 3) for number in range(9)]
    random.Random(1).shuffle(runs)
    await store.runs.enqueue(runs, [])
    await submit_at(database, 100.0, *(run.id for run in runs))
    await submit_at(database, 50.0, "run 5", "run 7")

    claims = [claim.id for _ in range(5) for claim in await store.leases.claim("default", 2, holder())]

    expected = ["run 5", "run 2", "run 8", "run 7", "run 1", "run 4", "run 0", "run 3", "run 6"]
    assert claims == expected


@pytest.mark.parametrize(("waited", "first"), [(2 * 3600.0 - 1.0, "urgent"), (2 * 3600.0 + 1.0, "old")])
async def test_a_run_that_has_waited_an_hour_per_point_of_priority_comes_first(
    store: Store, database: Database, waited: float, first: str
) -> None:
    """No run of low priority waits forever while more urgent ones keep coming."""
    await store.runs.enqueue([new_run(id="old", priority=1), new_run(id="urgent", priority=3)], [])
    submitted_at = await column(database, "urgent", "submitted_at")
    await submit_at(database, submitted_at - waited, "old")

    order = [claim.id for _ in range(2) for claim in await store.leases.claim("default", 1, holder())]

    assert order == sorted(order, key=lambda name: name != first)
    assert set(order) == {"old", "urgent"}


async def test_the_claims_of_a_batch_come_in_the_order_of_their_sort_keys(
    store: Store, database: Database
) -> None:
    runs = [new_run(id=f"run {number}", priority=number) for number in range(4)]
    await store.runs.enqueue(runs, [])
    for number in range(4):
        await submit_at(database, 1e6 + 5400.0 * number, f"run {number}")

    claims = await store.leases.claim("default", 10, holder())

    assert [claim.id for claim in claims] == ["run 0", "run 1", "run 2", "run 3"]
    assert [claim.sort_key for claim in claims] == [1e6 + 1800.0 * number for number in range(4)]


async def test_a_claim_starts_at_the_floor(store: Store, database: Database) -> None:
    await store.runs.enqueue([new_run(id=f"run {number}") for number in range(3)], [])
    for number in range(3):
        await submit_at(database, 100.0 + number, f"run {number}")

    claims = await store.leases.claim("default", 10, holder(), floor=101.0)

    assert [claim.id for claim in claims] == ["run 1", "run 2"]
    assert [claim.id for claim in await store.leases.claim("default", 10, holder())] == ["run 0"]


@pytest.mark.parametrize("kind", KINDS)
async def test_work_keeps_its_sort_key_wherever_it_moves(store: Store, database: Database, kind: str) -> None:
    """The submission sets the key, so a retry keeps its place."""
    claim = await claimed(store, priority=2)
    expected = claim.submitted_at - 2 * 3600.0
    assert claim.sort_key == expected

    await store.records.record([Record(KINDS[kind](claim))])
    assert await column(database, claim.id, "sort_key") == expected
    await ask(database, "UPDATE redrive.runs SET due_at = 0.0 WHERE place = 'waiting'")
    await store.leases.promote(10)
    await store.limits.release("breaker:mail", 10)
    assert await column(database, claim.id, "sort_key") == expected
    for again in await store.leases.claim("default", 10, holder()):
        assert again.sort_key == expected


async def test_an_old_retry_goes_before_new_work_d6(store: Store) -> None:
    [old] = await waiting(store, 1, delay=EXPIRED)
    await enqueued(store, 3)
    await store.leases.promote(10)

    [claim] = await store.leases.claim("default", 1, holder())

    assert claim.id == old


@pytest.mark.parametrize("most", [0, 1, 3, 7, 8])
async def test_never_more_than_asked_for(store: Store, database: Database, most: int) -> None:
    await enqueued(store, 7)

    claims = await store.leases.claim("default", most, holder())

    assert len(claims) == min(most, 7)
    assert await value(database, "SELECT count(*) FROM redrive.runs WHERE place = 'leased'") == len(claims)


async def test_other_queues_are_left_alone(store: Store) -> None:
    await enqueued(store, queue="mail")

    assert await store.leases.claim("default", 10, holder()) == []
    assert len(await store.leases.claim("mail", 10, holder())) == 1


@pytest.mark.parametrize(
    ("workflows", "expected"),
    [(["pay"], ["pay"]), (["pay", 'it\'s "quoted"'], ['it\'s "quoted"', "pay"]), (["other"], []), ([], [])],
)
async def test_limited_to_named_workflows_d7(store: Store, workflows: list[str], expected: list[str]) -> None:
    for name in ("greet", "pay", 'it\'s "quoted"'):
        await enqueued(store, workflow=name)

    claims = await store.leases.claim("default", 10, holder(), workflows)

    assert sorted(claim.workflow for claim in claims) == expected


async def test_paused_queues_are_skipped(store: Store) -> None:
    await enqueued(store, 2)
    await store.limits.pause("default", "ada", "deployment")
    await store.limits.pause("mail", "ada", "deployment")

    assert await store.leases.claim("default", 10, holder()) == []
    await store.limits.resume("default")
    assert len(await store.leases.claim("default", 10, holder())) == 2


@pytest.mark.parametrize("place", ["held", "waiting", "ended", "alone", "leased"])
async def test_only_ready_runs_are_claimed(store: Store, database: Database, place: str) -> None:
    [run_id] = await enqueued(store)
    text = "UPDATE redrive.runs SET place = :place, ended_at = 1.0 WHERE id = :id"
    await ask(database, text, place=place, id=run_id)

    assert await store.leases.claim("default", 10, holder(), ["greet"]) == []


async def test_a_claim_carries_everything(store: Store, database: Database) -> None:
    run = new_run(
        priority=3,
        idempotency_key="key",
        request_hash="hash",
        correlation_id="c",
        tags='["a"]',
        metadata='{"b":1}',
    )
    await store.runs.enqueue([run], [])
    taken = holder(ttl=60.0, worker="worker 7", code_version="v7")

    [claim] = await store.leases.claim("default", 1, taken)

    assert (claim.id, claim.org, claim.workflow) == (run.id, ORG, "greet")
    assert (claim.definition, claim.queue, claim.priority) == ("digest", "default", 3)
    assert (claim.step_index, claim.input, claim.step_input) == (0, run.input, None)
    assert (claim.attempt, claim.epoch) == (1, 1)
    assert (claim.token, claim.worker, claim.code_version) == (taken.token, "worker 7", "v7")
    assert (claim.idempotency_key, claim.correlation_id) == ("key", "c")
    assert (claim.tags, claim.metadata, claim.slots, claim.policy_override) == (
        '["a"]',
        '{"b":1}',
        None,
        None,
    )
    assert (claim.isolation, claim.cancel_requested_at) == (0, None)
    stored = await store.runs.get(run.id, ORG)
    assert (stored.state, stored.place, stored.step_state) == ("RUNNING", "leased", "RUNNING")
    assert stored.attempt_started_at == claim.attempt_started_at
    assert stored.started_at == pytest.approx(claim.attempt_started_at, abs=0.1)
    assert 55.0 < await seconds_left(database, run.id) <= 60.0


async def test_an_attempt_clears_the_due_time_and_keeps_the_counts_d8(
    store: Store, database: Database
) -> None:
    claim = await claimed(store)
    change = rescheduled(
        claim, delay=EXPIRED, failures=2, rate_limit_waits=3, holds=4, losses=5, isolated_crashes=6
    )
    await store.records.record([Record(change)])
    first = await store.runs.get(claim.id, ORG)
    assert first.due_at is not None
    await store.leases.promote(10)

    [again] = await store.leases.claim("default", 1, holder())

    assert (again.attempt, again.epoch) == (2, 2)
    assert again.token != claim.token
    assert (again.failures, again.rate_limit_waits, again.holds) == (2, 3, 4)
    assert (again.losses, again.isolated_crashes, again.previous_delay) == (5, 6, 60.0)
    second = await store.runs.get(claim.id, ORG)
    assert (second.due_at, second.held_by) == (None, None)
    assert (second.started_at, second.first_failed_at) == (first.started_at, first.first_failed_at)
    assert second.error_class == "retryable"


async def test_concurrent_claimers_never_share_a_run_i4(store: Store, database: Database) -> None:
    async def work(worker: Store, name: str) -> list[Claim]:
        taken = []
        while claims := await worker.leases.claim("default", 3, holder(worker=name)):
            assert len(claims) <= 3
            taken += claims
        return taken

    async with several(database, 4) as workers:
        for _ in range(6):
            ids = await enqueued(store, 20)
            names = [f"worker {number}" for number in range(4)]
            taken = await asyncio.gather(*map(work, workers, names))
            claims = [claim for each in taken for claim in each]
            # A claimer whose rows others had locked may have stopped early; this claims what is left.
            claims += await work(store, "worker 4")

            assert sorted(claim.id for claim in claims) == sorted(ids)
            assert {claim.epoch for claim in claims} == {1}
            await store.records.record([Record(completed(claim)) for claim in claims])


async def test_concurrent_claimers_of_one_run_have_one_winner_i4(store: Store, database: Database) -> None:
    async with several(database, 4) as workers:
        for _ in range(10):
            [run_id] = await enqueued(store)
            answers = await asyncio.gather(*[each.leases.claim("default", 5, holder()) for each in workers])
            claims = [claim for answer in answers for claim in answer]

            assert [claim.id for claim in claims] == [run_id]
            assert await column(database, run_id, "token", "epoch") == (claims[0].token, 1)
            await store.records.record([Record(completed(claims[0]))])


async def test_ready_queues(store: Store) -> None:
    for queue in ("a", "b", "it's"):
        await enqueued(store, 2, queue=queue)
    await enqueued(store, queue="later", delay=60.0)
    await store.limits.pause("b", "ada", "")

    assert await store.leases.ready_queues(["a", "b", "it's", "later", "none"]) == {"a", "it's"}
    assert await store.leases.ready_queues(["a"]) == {"a"}
    assert await store.leases.ready_queues([]) == set()


# Isolation


async def suspects(store: Store, number: int) -> list[str]:
    await enqueued(store, number)
    claims = await store.leases.claim("default", number, holder())
    await store.records.record(
        [Record(rescheduled(claim, place="alone", isolation=1, delay=0.0)) for claim in claims]
    )
    return [claim.id for claim in claims]


async def test_suspects_are_claimed_one_by_one_oldest_first(store: Store, database: Database) -> None:
    ids = await suspects(store, 3)
    for number, run_id in enumerate(ids):
        at = {"at": 300.0 - number, "id": run_id}
        await ask(database, "UPDATE redrive.runs SET submitted_at = :at WHERE id = :id", **at)

    claims = [claim for _ in range(4) for claim in await store.leases.claim_alone("default", holder())]

    assert [claim.id for claim in claims] == ids[::-1]
    assert {(claim.isolation, claim.attempt, claim.epoch) for claim in claims} == {(1, 2, 2)}


async def test_suspects_obey_queue_pause_and_workflows(store: Store) -> None:
    await suspects(store, 1)

    assert await store.leases.claim_alone("mail", holder()) == []
    assert await store.leases.claim_alone("default", holder(), ["pay"]) == []
    assert await store.leases.isolated_queues(["default", "mail"]) == {"default"}
    await store.limits.pause("default", "ada", "")
    assert await store.leases.claim_alone("default", holder()) == []
    assert await store.leases.isolated_queues(["default", "mail"]) == set()
    await store.limits.resume("default")
    assert len(await store.leases.claim_alone("default", holder(), ["greet"])) == 1


async def test_concurrent_claimers_of_a_suspect_have_one_winner_i4(store: Store, database: Database) -> None:
    async with several(database, 3) as workers:
        for _ in range(5):
            [run_id] = await suspects(store, 1)
            answers = await asyncio.gather(
                *[each.leases.claim_alone("default", holder()) for each in workers]
            )
            claims = [claim for answer in answers for claim in answer]

            assert [claim.id for claim in claims] == [run_id]
            await store.records.record([Record(completed(claims[0]))])


# Unknown commits


async def test_adopting_finds_exactly_the_claims_of_the_token(store: Store) -> None:
    await enqueued(store, 5)
    mine = await store.leases.claim("default", 3, holder(worker="me"))
    other = await store.leases.claim("default", 1, holder(worker="me"))
    await store.records.record([Record(completed(mine[0]))])
    token = mine[0].token

    assert await store.leases.adopt(token, "me") == mine[1:]
    assert await store.leases.adopt(other[0].token, "me") == other
    assert await store.leases.adopt(token, "somebody else") == []
    assert await store.leases.adopt(token + 1000, "me") == []


async def test_a_reclaimed_run_is_not_adopted(store: Store) -> None:
    claim = await claimed(store, EXPIRED)
    await store.leases.reclaim(999_999, 60.0, 10)

    assert await store.leases.adopt(claim.token, claim.worker) == []


async def test_the_claims_of_a_takeover_are_found_by_its_token(store: Store) -> None:
    lost, kept = await claimed(store, EXPIRED), await claimed(store, 60.0)
    taken = await store.leases.reclaim(999_999, 60.0, 10)

    assert [claim.id for claim in taken] == [lost.id]
    assert await store.leases.reclaimed(999_999) == taken
    assert await store.leases.reclaimed(kept.token) == [kept]
    await store.records.record([Record(completed(taken[0]))])
    assert await store.leases.reclaimed(999_999) == []


# Renewing


async def test_renewing_prolongs_only_matching_leases_p7(store: Store, database: Database) -> None:
    await enqueued(store, 4)
    kept, stale, done, untouched = await store.leases.claim("default", 4, holder(ttl=5.0))
    await store.records.record([Record(completed(done))])
    renewals = [renewal(kept), renewal(stale)._replace(token=-1), renewal(done), Renewal("nobody", 1, 60.0)]

    assert await store.leases.renew(renewals) == {(kept.id, kept.token): True}

    assert 55.0 < await seconds_left(database, kept.id) <= 60.0
    assert await seconds_left(database, stale.id) <= 5.0
    assert await seconds_left(database, untouched.id) <= 5.0
    assert await column(database, done.id, "leased_until") is None


async def test_each_lease_has_its_own_length(store: Store, database: Database) -> None:
    await enqueued(store, 2)
    short, long = await store.leases.claim("default", 2, holder())

    await store.leases.renew([renewal(long, 900.0), renewal(short, 9.0)])

    assert 5.0 < await seconds_left(database, short.id) <= 9.0
    assert 895.0 < await seconds_left(database, long.id) <= 900.0


async def test_a_renewed_lease_is_not_reclaimed(store: Store) -> None:
    claim = await claimed(store, EXPIRED)
    assert await store.leases.renew([renewal(claim)]) == {(claim.id, claim.token): True}

    assert await store.leases.reclaim(999_999, 60.0, 10) == []


async def test_a_reclaimed_lease_is_not_renewed(store: Store, database: Database) -> None:
    claim = await claimed(store, EXPIRED)
    [taken] = await store.leases.reclaim(999_999, 30.0, 10)

    assert await store.leases.renew([renewal(claim, 900.0)]) == {}
    assert await seconds_left(database, taken.id) <= 30.0


@pytest.mark.parametrize("make", [completed, rescheduled])
async def test_renewals_and_records_do_not_deadlock(
    store: Store, database: Database, make: Callable[[Claim], Change]
) -> None:
    """Each side writes batches in its own thread, over the same rows; a deadlock would fail one of them."""
    async with several(database, 1) as [lease_renewer]:
        for _ in range(8):
            await enqueued(store, 200)
            claims = await store.leases.claim("default", 200, holder())
            renewals = [renewal(claim) for claim in claims]

            await asyncio.gather(
                lease_renewer.leases.renew(renewals),
                store.records.record([Record(make(claim)) for claim in claims]),
                lease_renewer.leases.renew(renewals),
            )


async def test_a_renewal_waits_for_no_lock(postgres_database: PostgresDatabase) -> None:
    """This prevents the deadlock above: a renewal skips rows that are being written; they count as kept."""
    store = Store(postgres_database)
    await enqueued(store, 5)
    claims = await store.leases.claim("default", 5, holder())
    async with several(postgres_database, 1) as [lease_renewer], postgres_database.transaction() as session:
        await ask(session, "SELECT id FROM redrive.leases WHERE id = :id FOR UPDATE", id=claims[0].id)
        renewed = await lease_renewer.leases.renew([renewal(claim, 900.0) for claim in claims])

    assert renewed == {(claim.id, claim.token): claim is not claims[0] for claim in claims}
    left = [await seconds_left(postgres_database, claim.id) for claim in claims]
    assert left[0] <= 60.0
    assert min(left[1:]) > 60.0


async def test_a_lease_that_was_only_passed_over_ends_when_it_was_to_end_i4(
    postgres_database: PostgresDatabase,
) -> None:
    """Its renewer must not treat it as extended."""
    store, clock = Store(postgres_database), VirtualClock()
    await enqueued(store)
    [claim] = await store.leases.claim("default", 1, holder())
    lease_renewer = LeaseRenewer("test", postgres_database, clock, renew_runs, lambda leases: None)
    lease_renewer.hold((claim.id, claim.token), 60.0, clock.monotonic())
    clock.time += 30.0
    async with several(postgres_database, 1) as [other], postgres_database.transaction() as session:
        await ask(session, "SELECT id FROM redrive.leases WHERE id = :id FOR UPDATE", id=claim.id)
        await lease_renewer.renew(other.database)
    clock.time += 30.0
    assert lease_renewer.has_expired((claim.id, claim.token))


async def test_a_lease_that_is_being_reclaimed_is_not_kept_i4(postgres_database: PostgresDatabase) -> None:
    """The reclaim is not committed yet: others still see the old token, but the lease has expired."""
    store = Store(postgres_database)
    claim = await claimed(store, EXPIRED)
    async with several(postgres_database, 1) as [lease_renewer], postgres_database.transaction() as session:
        reclaimed = await session.fetch(
            statement("leases", "reclaim"), {"token": 999_999, "ttl": 60.0, "most": 10, "floor": 0.0}
        )
        renewed = await lease_renewer.leases.renew([renewal(claim)])

    assert [row[0] for row in reclaimed] == [claim.id]
    assert renewed == {}


@pytest.mark.parametrize("token", [0, 2**63 - 1])
async def test_every_token_of_63_bits_is_kept(store: Store, token: int) -> None:
    await enqueued(store)
    [claim] = await store.leases.claim("default", 1, holder()._replace(token=token))

    assert claim.token == token
    assert await store.leases.renew([renewal(claim)]) == {(claim.id, token): True}
    assert await store.leases.adopt(token, claim.worker) == [claim]
    assert places(await store.records.record([Record(completed(claim))])) == {claim.id: "ended"}


async def test_renewing_nothing(store: Store) -> None:
    assert await store.leases.renew([]) == {}


# Reclaiming


async def test_only_expired_leases_are_reclaimed_p6(store: Store, database: Database) -> None:
    await enqueued(store, 3)
    [lost] = await store.leases.claim("default", 1, holder(EXPIRED, "dead worker", "v0"))
    [healthy] = await store.leases.claim("default", 1, holder())

    [taken] = await store.leases.reclaim(999_999, 60.0, 10)

    assert taken == lost.replace(token=999_999)
    assert 55.0 < await seconds_left(database, lost.id) <= 60.0
    assert await column(database, lost.id, "place", "state", "attempt", "epoch") == (
        "leased",
        "RUNNING",
        1,
        1,
    )
    assert await column(database, healthy.id, "token") == healthy.token
    assert await store.leases.reclaim(999_998, 60.0, 10) == []


async def test_reclaiming_starts_at_the_floor(store: Store) -> None:
    early = await claimed(store, -30.0)
    late = await claimed(store, -10.0)
    floor = (await store.leases.next_due()).now - 20.0

    assert [claim.id for claim in await store.leases.reclaim(999_999, 60.0, 10, floor)] == [late.id]
    assert [claim.id for claim in await store.leases.reclaim(999_999, 60.0, 10)] == [early.id]


async def test_reclaiming_needs_no_row_of_the_dead_worker(store: Store) -> None:
    await claimed(store, EXPIRED)
    await store.limits.forget_workers(-1.0)

    assert len(await store.leases.reclaim(999_999, 60.0, 10)) == 1


async def test_reclaiming_is_bounded_and_takes_the_longest_expired_first(store: Store) -> None:
    await enqueued(store, 5)
    lost = [
        claim
        for ttl in (-3.0, -9.0, -6.0, -1.0, -4.0)
        for claim in await store.leases.claim("default", 1, holder(ttl))
    ]

    batches = [await store.leases.reclaim(token, 60.0, 2) for token in (901, 902, 903, 904)]

    by_expiry = [lost[number].id for number in (1, 2, 4, 0, 3)]
    assert [{claim.id for claim in batch} for batch in batches] == [
        set(by_expiry[:2]),
        set(by_expiry[2:4]),
        set(by_expiry[4:]),
        set(),
    ]


async def test_the_last_step_of_a_reclaim_is_the_usual_record(store: Store) -> None:
    """Recovery only requeues: the reclaimer writes under its own token, then any worker may claim (I4)."""
    lost = await claimed(store, EXPIRED)
    [taken] = await store.leases.reclaim(999_999, 60.0, 10)
    change = rescheduled(taken, place="ready", failures=0, losses=1, failed=0)

    assert places(await store.records.record([Record(change)])) == {lost.id: "ready"}

    [again] = await store.leases.claim("default", 1, holder())
    assert (again.attempt, again.epoch, again.losses, again.failures) == (2, 2, 1, 0)


async def test_concurrent_reclaimers_do_not_share_a_lease_i4(store: Store, database: Database) -> None:
    async with several(database, 4) as workers:
        for tokens in ((1001, 1002, 1003, 1004), (1005, 1006, 1007, 1008), (1009, 1010, 1011, 1012)):
            ids = await enqueued(store, 10)
            await store.leases.claim("default", 10, holder(EXPIRED))
            answers = await asyncio.gather(
                *[each.leases.reclaim(token, 60.0, 10) for each, token in zip(workers, tokens, strict=True)]
            )
            claims = [claim for answer in answers for claim in answer]

            assert sorted(claim.id for claim in claims) == sorted(ids)
            for claim in claims:
                assert await column(database, claim.id, "token") == claim.token
            await store.records.record([Record(completed(claim)) for claim in claims])


@pytest.mark.parametrize("rounds", [10])
async def test_a_late_record_and_a_reclaim_have_one_winner_i4(
    store: Store, database: Database, rounds: int
) -> None:
    async with several(database, 2) as (worker, reclaimer):
        for token in range(2001, 2001 + rounds):
            claim = await claimed(store, EXPIRED)
            won, taken = await asyncio.gather(
                worker.records.record([Record(completed(claim))]), reclaimer.leases.reclaim(token, 60.0, 10)
            )

            assert places(won) == ({} if taken else {claim.id: "ended"})
            if taken:
                assert places(await store.records.record([Record(completed(taken[0]))])) == {
                    claim.id: "ended"
                }


@pytest.mark.parametrize("rounds", [10])
async def test_a_renewal_and_a_reclaim_have_one_winner_i4(
    store: Store, database: Database, rounds: int
) -> None:
    async with several(database, 2) as (worker, reclaimer):
        for token in range(3001, 3001 + rounds):
            claim = await claimed(store, EXPIRED)
            renewed, taken = await asyncio.gather(
                worker.leases.renew([renewal(claim)]), reclaimer.leases.reclaim(token, 60.0, 10)
            )

            assert len(renewed) + len(taken) == 1
            await store.records.record([Record(completed(each)) for each in taken or [claim]])


async def test_epochs_rise_by_one_i4(store: Store) -> None:
    claim = await claimed(store)
    epochs = [claim.epoch]
    for change, place in (
        (rescheduled(claim, place="ready"), "ready"),
        (parked(claim, epoch=2, holds=1), "held"),
        (advanced_in_place(claim, epoch=3), "leased"),
        (rescheduled(claim, epoch=4, place="ready"), "ready"),
    ):
        assert places(await store.records.record([Record(change.replace(token=claim.token))])) == {
            claim.id: place
        }
        if isinstance(change, type(parked(claim))):
            await store.limits.release("breaker:mail", 1)
        if change.epoch == 3:
            epochs.append(4)
            continue
        [claim] = await store.leases.claim("default", 1, holder())
        epochs.append(claim.epoch)

    assert [after - before for before, after in pairwise(epochs)] == [1, 1, 1, 1]


# Promoting


async def test_only_due_runs_are_promoted(store: Store, database: Database) -> None:
    due = await waiting(store, 2, delay=EXPIRED)
    [later] = await waiting(store, 1, delay=60.0)

    assert await store.leases.promote(10) == ["default", "default"]

    assert {await column(database, run_id, "place", "due_at") for run_id in due} == {("ready", None)}
    assert await column(database, later, "place") == "waiting"
    assert await store.leases.promote(10) == []


async def test_promoting_is_bounded_and_takes_the_longest_due_first(store: Store, database: Database) -> None:
    ids = [(await waiting(store, 1, delay=delay))[0] for delay in (-3.0, -9.0, -6.0)]

    assert len(await store.leases.promote(2)) == 2

    assert [await column(database, run_id, "place") for run_id in ids] == ["waiting", "ready", "ready"]


async def test_a_promotion_starts_at_the_floor(store: Store, database: Database) -> None:
    ids = [(await waiting(store, 1, delay=delay))[0] for delay in (-30.0, -10.0)]
    now = (await store.leases.next_due()).now

    assert len(await store.leases.promote(10, now - 20.0)) == 1
    assert [await column(database, run_id, "place") for run_id in ids] == ["waiting", "ready"]
    assert (await store.leases.next_due(now - 20.0)).seconds is None
    assert len(await store.leases.promote(10)) == 1


async def test_concurrent_promotions_promote_each_run_once(store: Store, database: Database) -> None:
    await waiting(store, 20, delay=EXPIRED)
    async with several(database, 3) as workers:
        answers = await asyncio.gather(*[each.leases.promote(20) for each in workers])

    assert sum(map(len, answers)) == 20


async def test_a_suspect_is_promoted_to_be_alone(store: Store, database: Database) -> None:
    claim = await claimed(store)
    await store.records.record([Record(rescheduled(claim, delay=EXPIRED, isolation=1))])

    assert await store.leases.promote(10) == ["default"]

    assert await column(database, claim.id, "place", "due_at") == ("alone", None)
    assert await store.leases.claim("default", 10, holder()) == []


async def test_next_due(store: Store) -> None:
    assert (await store.leases.next_due()).seconds is None
    await enqueued(store)
    assert (await store.leases.next_due()).seconds is None
    await enqueued(store, delay=600.0)
    await enqueued(store, delay=60.0)

    soon = (await store.leases.next_due()).seconds

    assert soon is not None
    assert 50.0 < soon <= 60.0


async def test_next_due_of_overdue_work_is_not_in_the_future(store: Store) -> None:
    await waiting(store, 1, delay=-5.0)

    soon = (await store.leases.next_due()).seconds

    assert soon is not None
    assert soon <= -5.0


# Cancelling


async def test_a_worker_learns_only_of_its_own_cancelled_runs(store: Store) -> None:
    await enqueued(store, 4)
    mine, running, done = await store.leases.claim("default", 3, holder(worker="me"))
    [other] = await store.leases.claim("default", 1, holder(worker="other"))
    for claim in (mine, other, done):
        assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"
    await store.records.record([Record(completed(done))])

    assert await store.leases.cancelling("me") == [(mine.id, mine.token)]
    assert await store.leases.cancelling("other") == [(other.id, other.token)]
    assert await store.leases.cancelling("nobody") == []
    assert running.cancel_requested_at is None


# Query plans: the hot indexes apply (decision 7)

Parameters = dict[str, object]
HOT = {
    ("leases", "claim"): ("runs_ready", "ready_order"),
    ("leases", "claim_alone"): ("runs_alone", "idle_alone"),
    ("leases", "promote"): ("runs_waiting", "idle_waiting"),
    ("leases", "reclaim"): ("runs_leased", "leases_expiry"),
    ("limits", "release"): ("runs_held", "idle_held"),
}
"""Statements, and the index that each uses on SQLite and on PostgreSQL."""

SPLIT = ("run_inputs", "ready", "idle", "leases", "ended")
"""The tables that hold runs on PostgreSQL."""

ARGUMENTS: Parameters = {
    "queue": "default",
    "workflows": '["greet"]',
    "without": None,
    "most": 10,
    "floor": 0.0,
    "skip": 0,
    "held_by": "breaker:mail",
    "queues": '["default"]',
    "token": 1,
    "worker": "w",
    "code_version": "v",
    "ttl": 60.0,
}


async def much_of_everything(store: Store, database: Database) -> None:
    """Fill each table with few hot rows and many others: PostgreSQL scans small tables completely."""
    await enqueued(store, 12_000)
    await ask(
        database,
        "CREATE TABLE redrive.numbered AS SELECT id, row_number() OVER (ORDER BY id) AS n FROM redrive.runs",
    )
    await ask(
        database,
        """UPDATE redrive.runs SET place = CASE
            WHEN n <= 2500 THEN 'ready' WHEN n <= 4500 THEN 'waiting' WHEN n <= 5500 THEN 'held'
            WHEN n <= 6500 THEN 'alone' WHEN n <= 11500 THEN 'leased' ELSE 'ended' END,
            queue = CASE WHEN n % 100 = 0 THEN queue ELSE 'other' END,
            due_at = CASE WHEN n > 2500 AND n <= 4500 THEN :now + n * 10 - 25500 END,
            held_by = CASE WHEN n > 5500 OR n <= 4500 THEN NULL WHEN n <= 4510 THEN :name ELSE 'other' END,
            leased_until = CASE WHEN n > 6500 AND n <= 11500 THEN :now + n - 6505 END,
            ended_at = CASE WHEN n > 11500 THEN :now - n END,
            submitted_at = submitted_at + n
        FROM redrive.numbered WHERE numbered.id = runs.id""",
        name=ARGUMENTS["held_by"],
    )
    if isinstance(database, PostgresDatabase):
        for table in SPLIT:
            await ask(database, f"VACUUM ANALYZE redrive.{table}")


def explained(module: str, name: str) -> Statement:
    return Statement(
        *(
            SqlQuery("explain", f"{prefix} {query.text}", query.names, query.timed)
            for prefix, query in zip(
                ("EXPLAIN QUERY PLAN", "EXPLAIN"),
                (statement(module, name).sqlite, statement(module, name).postgres),
                strict=True,
            )
        )
    )


async def test_the_hot_index_serves(store: Store, database: Database) -> None:
    await much_of_everything(store, database)

    async with database.transaction() as session:
        if isinstance(database, PostgresDatabase):
            await ask(session, "SET LOCAL enable_sort = off")  # the planner may sort a few rows
        plans = {hot: await session.fetch(explained(*hot), ARGUMENTS) for hot in HOT}
        claim = plans.pop(("leases", "claim"))  # this claim merges the first runs of each workflow

    for hot, rows in plans.items():
        index = HOT[hot][isinstance(database, PostgresDatabase)]
        plan = "\n".join(str(row[-1]) for row in rows)
        assert index in plan, plan
        assert f"SCAN runs USING INDEX {index}" in plan or "SCAN runs" not in plan, plan
        assert "TEMP B-TREE" not in plan, plan
        assert not scanned(plan), plan
        assert "Sort" not in plan, plan
    plan = "\n".join(str(row[-1]) for row in claim)
    assert re.search(
        r"runs_ready \(queue=\? AND workflow=\? AND sort_key>\?\)|using ready_order on", plan, re.IGNORECASE
    ), plan
    assert not scanned(plan), plan


def scanned(plan: str) -> list[str]:
    """Return the tables with work or inputs of runs that PostgreSQL would scan completely."""
    return [table for table in SPLIT if re.search(rf"Seq Scan on (\w+\.)?{table}\b", plan)]


async def test_the_hot_index_serves_prepared_statements_too(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    """After a few uses, PostgreSQL plans a prepared statement again, without its values."""
    await much_of_everything(Store(postgres_database), postgres_database)
    with psycopg.connect(live_postgres.url) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        for (module, name), (_, index) in HOT.items():
            query = statement(module, name).postgres
            text, values = (
                query.text.replace("redrive.", f"{postgres_database.schema}."),
                ", ".join("NULL" for _ in query.names),
            )
            connection.execute(f"PREPARE {index} AS {text}".encode())
            rows = connection.execute(f"EXPLAIN EXECUTE {index} ({values})".encode()).fetchall()
            plan = "\n".join(row[0] for row in rows)
            assert f"using {index} on" in plan, plan
            assert not scanned(plan), plan


async def test_a_claim_reads_only_what_it_takes_although_the_table_was_empty_when_it_was_planned(
    postgres_database: PostgresDatabase,
) -> None:
    """With old statistics, PostgreSQL expects few rows, and would read and sort all of them per claim."""
    store = Store(postgres_database)
    await ask(postgres_database, "ALTER TABLE redrive.ready SET (autovacuum_enabled = off)")
    await ask(postgres_database, "ANALYZE redrive.ready")
    for _ in range(8):
        assert await store.leases.claim("default", 10, holder()) == []
    await enqueued(store, 5_000)

    async with postgres_database.transaction() as session:
        assert len(await Leases(session).claim("default", 10, holder())) == 10
        [[rows, entries]] = await ask(session, READ)

    assert rows + entries <= 100


def tick(counted: list[int]) -> bool:
    counted[0] += 1
    return False


@asynccontextmanager
async def reading(database: Database) -> AsyncIterator[tuple[Leases, Callable[[], Awaitable[int]]]]:
    """Yield Leases and a counter of its reads: rows and index entries, or hundreds of steps of SQLite."""
    if isinstance(database, PostgresDatabase):
        async with database.transaction() as session:
            yield Leases(session), lambda: read_by(session)
        return
    assert isinstance(database, SqliteDatabase)
    counted = [0]
    connection = database._open()
    connection.set_progress_handler(lambda: tick(counted), 100)
    yield Leases(database), lambda: asyncio.sleep(0, counted[0])
    connection.set_progress_handler(None)


async def read_by(session: Session) -> int:
    [[rows, entries]] = await ask(session, READ)
    return int(rows + entries)


async def test_a_claim_reads_little_beside_many_runs_that_it_does_not_know(
    store: Store, database: Database
) -> None:
    await enqueued(store, 20_000, workflow="unknown")
    known = [
        new_run(id=f"{number:032x}", workflow=("known", "known too")[number % 2]) for number in range(400)
    ]
    await store.runs.enqueue(known, [DEFINITION])

    async with reading(database) as (leases, read):
        claims = await leases.claim("default", 10, holder(), ["known", "known too", "never started"])
        assert [claim.workflow for claim in claims] == ["known", "known too"] * 5
        assert await read() <= 200
    async with reading(database) as (leases, read):
        assert await leases.claim("default", 10, holder(), ["never started"]) == []
        assert await read() <= 100


async def test_the_work_that_is_ready_is_found_without_reading_it(store: Store, database: Database) -> None:
    await enqueued(store, 20_000, workflow="many")
    await enqueued(store, 1, workflow="one")
    await enqueued(store, 1, workflow="one", queue="mail")

    async with reading(database) as (leases, read):
        kinds = await leases.ready_work()
        assert sorted(kinds) == [("default", "many"), ("default", "one"), ("mail", "one")]
        assert await read() <= 50


async def test_a_claim_skips_runs_that_another_worker_is_claiming(
    postgres_database: PostgresDatabase,
) -> None:
    """Another worker has locked the next runs of one workflow, so this claim takes those of another."""
    store = Store(postgres_database)
    await enqueued(store, 4, workflow="first")
    await enqueued(store, 4, workflow="second")

    async with postgres_database.transaction() as session:
        assert len(await Leases(session).claim("default", 4, holder(), ["first", "second"])) == 4
        others = await store.leases.claim("default", 3, holder(), ["first", "second"])
        assert [claim.workflow for claim in others] == ["second"] * 3


async def test_a_claim_ends_where_its_inputs_exceed_the_limit(store: Store) -> None:
    sizes = (100, 100, 5_000, 10, 100)
    for size in sizes:
        await enqueued(store, input='"' + "x" * (size - 2) + '"')

    async def claim(max_bytes: int) -> list[int]:
        claims = await store.leases.claim("default", 9, holder(), max_bytes=max_bytes)
        return [len(claim.input) for claim in claims]

    assert await claim(101) == [100, 100]
    assert await claim(1) == [5_000]
    assert await claim(10_000) == [10, 100]


async def test_the_results_of_earlier_steps_count_as_inputs(store: Store) -> None:
    await enqueued(store, 2)
    result = '"' + "x" * 998 + '"'
    records = [
        Record(advanced(claim, step_input=result), step=step_row(claim))
        for claim in await store.leases.claim("default", 2, holder())
    ]
    await store.records.record(records)

    assert len(await store.leases.claim("default", 9, holder(), max_bytes=1_000)) == 1


READ = """SELECT pg_stat_get_xact_tuples_returned(CAST('redrive.ready' AS regclass)),
    pg_stat_get_xact_tuples_returned(CAST('redrive.ready_order' AS regclass))"""


async def test_a_pile_of_other_work_is_not_even_looked_at(store: Store, database: Database) -> None:
    """The queue also has waiting, held, ended and dead runs; a claim finds the ready one."""
    await waiting(store, 50)
    claims = [await claimed(store) for _ in range(3)]
    for claim in claims:
        await buried(store, claim)
    before = await tables(database)
    [run_id] = await enqueued(store)

    assert [claim.id for claim in await store.leases.claim("default", 100, holder())] == [run_id]

    after = await tables(database)
    assert len(set(after["runs"]) - set(before["runs"])) == 1
