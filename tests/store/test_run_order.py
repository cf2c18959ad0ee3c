"""Order keys: runs of one key are executed one at a time, in the order in which their starts committed."""

from __future__ import annotations

import asyncio
import itertools
import re
import uuid
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from tests.servers import PostgresServer
from tests.store.build import (
    DEFINITION,
    EXPIRED,
    ORG,
    advanced,
    ask,
    buried,
    claimed,
    column,
    completed,
    dead_letter_row,
    event_row,
    holder,
    new_run,
    parked,
    rescheduled,
    stopped,
    value,
)
from tests.store.previous_version import previous_version

from redrive.errors import StoreError
from redrive.model.claim import Claim
from redrive.model.replay import Mode, ReplayState
from redrive.model.run import AfterFailure, NewRun, RunState
from redrive.model.run_order import MAX_IN_ORDER
from redrive.policy.query import parse
from redrive.policy.query_language import RUNS
from redrive.store.database import Database
from redrive.store.dead_letters import LetterClosing
from redrive.store.joined import joined_session
from redrive.store.migration import migrations
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import CompletedPartly, Record
from redrive.store.replays import NewReplay, Settlement
from redrive.store.runs import FIRST_KEY, RunKey
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import statement, statements
from redrive.store.store import Store
from redrive.store.work_row import WorkRow

KEY = "customer-7"
_counter = itertools.count(1)


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def ordered_id() -> str:
    return f"{next(_counter):012x}{uuid.uuid4().hex[:16]}f1f0"


def in_order(key: str = KEY, **changes: Any) -> NewRun:
    identifier = ordered_id()
    return new_run(id=identifier, correlation_id=identifier, order_key=key, **changes)


async def started(store: Store, number: int = 1, key: str = KEY, **changes: Any) -> list[str]:
    runs = [in_order(key, **changes) for _ in range(number)]
    return await store.runs.enqueue(runs, [DEFINITION])


async def claim(store: Store, most: int = 10) -> list[Claim]:
    return await store.leases.claim("default", most, holder())


async def claim_head(store: Store, run_id: str) -> Claim:
    [only] = await claim(store)
    assert only.id == run_id
    return only


async def places_of(store: Store, ids: list[str]) -> list[str]:
    return [str((await store.runs.get(run_id, ORG)).place) for run_id in ids]


async def keys_in_use(database: Database) -> list[tuple[Any, ...]]:
    return await ask(database, "SELECT DISTINCT org, order_key FROM redrive.run_order ORDER BY 1, 2")


async def test_runs_of_a_key_are_claimed_one_at_a_time_in_order(store: Store, database: Database) -> None:
    ids = await started(store, 3)
    assert await places_of(store, ids) == ["ready", "waiting", "waiting"]
    assert await column(database, ids[1], "held_by") == "order:customer-7"

    for run_id in ids:
        head = await claim_head(store, run_id)
        await store.records.record([Record(completed(head))])

    assert await places_of(store, ids) == ["ended"] * 3
    assert await keys_in_use(database) == []


async def test_runs_of_other_keys_and_organizations_do_not_wait(store: Store) -> None:
    [first], [other] = await started(store), await started(store, key="customer-8")
    mine, next_of_mine = await started(store, 2, org="acme")

    claims = {run.id: run for run in await claim(store)}
    assert claims.keys() == {first, other, mine}
    await store.records.record([Record(completed(claims[mine]))])
    await claim_head(store, next_of_mine)


async def test_a_start_behind_a_run_in_progress_waits(store: Store) -> None:
    [first] = await started(store)
    head = await claim_head(store, first)
    [second] = await started(store)
    assert await claim(store) == []

    await store.records.record([Record(completed(head))])
    await claim_head(store, second)


async def test_mixed_batches_keep_the_ids_and_the_order(store: Store) -> None:
    runs = [new_run(), in_order(), in_order("b"), new_run(priority=3), in_order(), in_order("b")]

    assert await store.runs.enqueue(runs, [DEFINITION]) == [run.id for run in runs]
    assert await places_of(store, [run.id for run in runs]) == ["ready"] * 4 + ["waiting"] * 2


async def test_a_known_idempotency_key_adds_nothing(store: Store, database: Database) -> None:
    first, again = (
        in_order(idempotency_key="k", request_hash="h"),
        in_order(idempotency_key="k", request_hash="h"),
    )
    other = in_order(idempotency_key="a", request_hash="h")

    assert await store.runs.enqueue([first], [DEFINITION]) == [first.id]
    assert await store.runs.enqueue([again, other], [DEFINITION]) == [first.id, other.id]
    assert await value(database, "SELECT count(*) FROM redrive.run_order") == 2
    assert await store.runs.enqueue([first], [DEFINITION]) == [first.id]
    assert await value(database, "SELECT count(*) FROM redrive.run_order") == 2


async def test_a_list_with_idempotency_keys_keeps_its_order(store: Store) -> None:
    runs = [in_order(idempotency_key=key, request_hash="h") for key in "cab"]
    await store.runs.enqueue(runs, [DEFINITION])

    for run in runs:
        await store.records.record([Record(completed(await claim_head(store, run.id)))])


async def test_a_rolled_back_start_leaves_nothing(store: Store, database: Database) -> None:
    await store.runs.define([DEFINITION])
    with pytest.raises(RuntimeError):
        async with database.transaction() as session:
            await store.runs.enqueue_within(session, [in_order(), in_order()])
            raise RuntimeError
    assert await keys_in_use(database) == []
    [first] = await started(store)
    await claim_head(store, first)


async def test_a_run_that_ends_without_a_dead_letter_releases_the_next(store: Store) -> None:
    first, second, third = await started(store, 3)
    head = await claim_head(store, first)
    await store.records.record([Record(stopped(head, state=RunState.CANCELLED))])
    head = await claim_head(store, second)
    rejected = event_row(head, kind="unburied")
    await store.records.record([Record(stopped(head, state=RunState.FAILED), event=rejected)])

    await claim_head(store, third)


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.DLQ_PENDING])
async def test_successors_wait_for_a_dead_letter(store: Store, state: RunState) -> None:
    first, second = await started(store, 2)
    head = await claim_head(store, first)
    await store.records.record([Record(stopped(head, state=state), dead_letter=dead_letter_row(head))])

    assert await claim(store) == []
    assert await places_of(store, [second]) == ["waiting"]


async def test_successors_proceed_after_a_dead_letter_if_their_predecessor_says_so(store: Store) -> None:
    first, second = await started(store, 2, after_failure=AfterFailure.PROCEED)
    await buried(store, await claim_head(store, first))

    await claim_head(store, second)


async def test_retries_and_holds_keep_the_head(store: Store) -> None:
    first, second = await started(store, 2)
    await store.records.record([Record(parked(await claim_head(store, first)))])
    assert await claim(store) == []
    await store.limits.release("breaker:mail", 10)
    await store.records.record([Record(rescheduled(await claim_head(store, first), delay=-1.0))])
    await store.leases.promote(10)
    await store.records.record([Record(advanced(await claim_head(store, first)))])
    await store.records.record([Record(completed(await claim_head(store, first)))])

    await claim_head(store, second)


async def test_cancelling_the_head_releases_the_next(store: Store) -> None:
    first, second = await started(store, 2)
    await store.runs.cancel(first, ORG)

    await claim_head(store, second)


async def test_cancelling_a_parked_run_removes_only_that_run(store: Store) -> None:
    first, second, third = await started(store, 3)
    await store.runs.cancel(second, ORG)

    await store.records.record([Record(completed(await claim_head(store, first)))])
    await claim_head(store, third)


async def test_a_head_that_is_not_due_keeps_its_successors_waiting(store: Store) -> None:
    [first] = await started(store, delay=60.0)
    [second] = await started(store)
    [third] = await started(store, delay=60.0)
    assert await places_of(store, [first, second, third]) == ["waiting", "waiting", "waiting"]

    await store.runs.cancel(first, ORG)
    await store.records.record([Record(completed(await claim_head(store, second)))])
    assert await places_of(store, [third]) == ["waiting"]


async def test_runs_without_a_key_leave_no_trace(store: Store, database: Database) -> None:
    await store.records.record([Record(completed(await claimed(store)))])

    assert await keys_in_use(database) == []


# Dead letters


async def close(store: Store, letter_id: str, state: str) -> None:
    closing = LetterClosing(org=ORG, state=state, by="ana", reason="known")
    assert await store.dead_letters.close_if_unattended(store.database, [letter_id], closing) == 1


@pytest.mark.parametrize("state", ["RESOLVED", "IGNORED", "ARCHIVED"])
async def test_closing_the_dead_letter_releases_the_next(
    store: Store, database: Database, state: str
) -> None:
    first, second = await started(store, 2)
    letter_id = await buried(store, await claim_head(store, first))
    await close(store, letter_id, state)

    await store.records.record([Record(completed(await claim_head(store, second)))])
    assert await keys_in_use(database) == []


async def replayed(store: Store, run_id: str, letter_id: str, mode: Mode = Mode.FROM_STEP) -> Claim:
    """Replay a dead letter: its run is claimed again."""
    replay = NewReplay(
        id=uuid.uuid4().hex,
        org=ORG,
        letter_id=letter_id,
        run_id=run_id,
        step_index=0,
        from_step=0,
        mode=mode,
        automatic=False,
        requested_by="ana",
        reason="fixed",
    )
    async with store.database.transaction() as session:
        assert (await store.replays.begin(session, [replay])).replays == (replay,)
    return await claim_head(store, run_id)


async def test_a_replayed_run_is_still_the_head(store: Store) -> None:
    first, second = await started(store, 2)
    letter_id = await buried(store, await claim_head(store, first))

    again = await replayed(store, first, letter_id)
    failed = Settlement(first, 0, ReplayState.FAILED)
    letter = dead_letter_row(again)
    await store.records.record([Record(stopped(again), dead_letter=letter, settlement=failed)])
    assert await claim(store) == []

    again = await replayed(store, first, letter_id)
    succeeded = Settlement(first, 0, ReplayState.SUCCEEDED)
    await store.records.record([Record(completed(again), settlement=succeeded)])
    await claim_head(store, second)


async def test_a_replay_of_one_step_releases_the_next(store: Store) -> None:
    first, second = await started(store, 2)
    letter_id = await buried(store, await claim_head(store, first))
    again = await replayed(store, first, letter_id, Mode.STEP_ONLY)
    partly = CompletedPartly(id=again.id, token=again.token, epoch=again.epoch)
    await store.records.record([Record(partly, settlement=Settlement(first, 0, ReplayState.SUCCEEDED))])

    await claim_head(store, second)


async def test_a_replay_whose_successors_have_proceeded_just_runs(store: Store) -> None:
    first, second = await started(store, 2, after_failure=AfterFailure.PROCEED)
    letter_id = await buried(store, await claim_head(store, first))
    following = await claim_head(store, second)

    again = await replayed(store, first, letter_id)
    await store.records.record(
        [Record(completed(again), settlement=Settlement(first, 0, ReplayState.SUCCEEDED))]
    )
    assert await claim(store) == []
    await store.records.record([Record(completed(following))])


async def test_a_letter_reopened_after_its_successors_went_on_blocks_nothing(store: Store) -> None:
    first, second, third = await started(store, 3)
    letter_id = await buried(store, await claim_head(store, first))
    await close(store, letter_id, "IGNORED")
    assert await store.dead_letters.reopen_if_closed(store.database, [letter_id], ORG) == 1

    await store.records.record([Record(completed(await claim_head(store, second)))])
    await claim_head(store, third)


async def test_removing_the_run_releases_the_next(store: Store, database: Database) -> None:
    """Retention keeps runs with a live dead letter, but an operator may delete rows."""
    first, second = await started(store, 2)
    await buried(store, await claim_head(store, first))
    await ask(database, "DELETE FROM redrive.dead_letters WHERE run_id = :id", id=first)
    await database.fetch_many(statement("runs", "delete_run"), [RunKey(first)])

    await claim_head(store, second)


async def test_retention_removes_ordered_runs(store: Store, database: Database) -> None:
    first, second = await started(store, 2)
    await close(store, await buried(store, await claim_head(store, first)), "IGNORED")
    await store.records.record([Record(completed(await claim_head(store, second)))])

    assert await store.runs.remove_expired(-60.0, 10) == 2
    assert await keys_in_use(database) == []


# Concurrent transactions, which only PostgreSQL has


@pytest.fixture
def postgres(postgres_database: PostgresDatabase) -> Store:
    return Store(postgres_database)


async def test_the_order_is_that_of_the_commits(postgres: Store) -> None:
    slow, fast, third = in_order(), in_order(), in_order()
    await postgres.runs.define([DEFINITION])
    async with postgres.database.transaction() as session:
        await postgres.runs.enqueue_within(session, [slow])
        async with asyncio.timeout(10):  # the open transaction blocks no other
            await postgres.runs.enqueue([fast], [DEFINITION])
            assert await places_of(postgres, [fast.id]) == ["ready"]
    await postgres.runs.enqueue([third], [DEFINITION])

    for run in (fast, slow, third):
        await postgres.records.record([Record(completed(await claim_head(postgres, run.id)))])


async def test_an_open_start_keeps_no_run_from_ending(postgres: Store) -> None:
    [first] = await started(postgres)
    head, second = await claim_head(postgres, first), in_order()
    async with postgres.database.transaction() as session:
        await postgres.runs.enqueue_within(session, [second])
        async with asyncio.timeout(10):
            await postgres.records.record([Record(completed(head))])

    await claim_head(postgres, second.id)


async def test_a_run_started_while_the_head_ends_is_parked_until_that_commits(postgres: Store) -> None:
    """Otherwise both could be ready, or the new run be parked behind none."""
    [first] = await started(postgres)
    head = await claim_head(postgres, first)
    for is_committed in (False, True):
        with suppress(ZeroDivisionError):
            async with postgres.database.transaction() as session:
                await postgres.records.record_within(session, [Record(completed(head))])
                [following] = await started(postgres)
                assert await places_of(postgres, [following]) == ["waiting"]
                if not is_committed:
                    await postgres.runs.cancel(following, ORG)
                    raise ZeroDivisionError
    await claim_head(postgres, following)


async def test_concurrent_starts_never_make_two_heads(postgres: Store) -> None:
    batches = [[in_order(key) for key in keys for _ in range(3)] for keys in ("abc", "cba", "bca", "acb")] * 3
    batches = [[run.replace(id=ordered_id()) for run in batch] for batch in batches]
    await asyncio.gather(*(postgres.runs.enqueue(batch, [DEFINITION]) for batch in batches))

    seen: dict[str, list[str]] = {}
    key_of = {run.id: run.order_key or "" for batch in batches for run in batch}
    while claims := await claim(postgres, 100):
        assert len({key_of[it.id] for it in claims}) == len(claims) <= 3
        for it in claims:
            seen.setdefault(key_of[it.id], []).append(it.id)
        await postgres.records.record([Record(completed(it)) for it in claims])
    assert {key: len(ids) for key, ids in seen.items()} == {"a": 36, "b": 36, "c": 36}
    for batch in batches:  # each batch keeps its own order
        for key in "abc":
            own = [run.id for run in batch if run.order_key == key]
            assert [run_id for run_id in seen[key] if run_id in own] == own


async def test_transactions_that_start_keys_in_opposite_orders_do_not_deadlock(postgres: Store) -> None:
    await postgres.runs.define([DEFINITION])
    both = asyncio.Barrier(2)

    async def start(*keys: str) -> None:
        async with postgres.database.transaction() as session:
            for key in keys:
                await postgres.runs.enqueue_within(session, [in_order(key)])
            await both.wait()

    async with asyncio.timeout(10):
        await asyncio.gather(start("a", "b"), start("b", "a"))
    assert len(await claim(postgres)) == 2


async def test_a_transaction_with_an_old_snapshot_fails_instead_of_parking_for_ever(
    postgres: Store, postgres_database: PostgresDatabase, live_postgres: PostgresServer
) -> None:
    [first] = await started(postgres)
    head = await claim_head(postgres, first)
    connection = await asyncpg.connect(live_postgres.url)
    try:
        transaction = connection.transaction(isolation="repeatable_read")
        await transaction.start()
        await connection.fetch(f"SELECT 1 FROM {postgres_database.schema}.run_order")  # takes the snapshot
        await postgres.records.record([Record(completed(head))])
        await postgres.runs.enqueue_within(joined_session(connection, postgres_database), [in_order()])
        with pytest.raises(asyncpg.SerializationError):
            await transaction.commit()
    finally:
        await connection.close()
    [second] = await started(postgres)
    await claim_head(postgres, second)


async def test_workers_are_notified_of_the_released_run(
    postgres: Store, postgres_database: PostgresDatabase
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with postgres_database.listen(heard.put_nowait), asyncio.timeout(10):
        assert await heard.get() == ""  # it listens now
        [first] = await started(postgres)
        head = await claim_head(postgres, first)
        await started(postgres, queue="mail")
        assert heard.empty()
        await postgres.records.record([Record(completed(head))])
        assert await heard.get() == "mail"


async def test_an_id_without_the_mark_is_rejected(postgres: Store) -> None:
    """The triggers would not notice the end of such a run."""
    with pytest.raises(StoreError, match="run_order_mark"):
        await postgres.runs.enqueue([new_run(order_key=KEY)], [DEFINITION])


def test_statements_for_runs_without_a_key_know_nothing_of_orders() -> None:
    starts = {name: statement("runs", name) for name in ("enqueue", "enqueue_new", "enqueue_mixed")}
    others = [statements(module)[name] for module in ("leases", "records") for name in statements(module)]
    assert len(others) > 30
    for found in (*starts.values(), *others):
        for query in (found.sqlite, found.postgres):
            assert "order_key" not in query.text, query.name
            assert "run_order" not in query.text, query.name


def test_moving_parked_work_copies_all_its_columns() -> None:
    """If this fails, a migration has to replace the functions of migration 24, which name the columns."""
    text = next(found.postgres for found in migrations() if found.version == 24)
    lists = re.findall(
        r"(?:INSERT INTO redrive\.(?:ready|idle) \(|SELECT) (submitted_at,[^;)]*?step_state),",
        " ".join(text.split()),
    )
    assert len(lists) == 4
    for columns in lists:
        assert set(columns.split(", ")) == {*WorkRow.__struct_fields__, "state", "step_state"}


# What people see


async def test_a_run_knows_what_it_waits_for_and_how_many_wait_behind_it(store: Store) -> None:
    first, second, third, fourth = await started(store, 4)
    await started(store, key="other", queue="mail")
    wait = AfterFailure.WAIT

    assert await store.runs.order(first, ORG) == (KEY, wait, None, (0, False), (3, False))
    assert await store.runs.order(third, ORG) == (KEY, wait, first, (2, False), (1, False))
    assert await store.runs.order(fourth, "acme") is None
    await store.records.record([Record(completed(await claim_head(store, first)))])
    assert await store.runs.order(first, ORG) == (KEY, None, None, (0, False), (0, False))
    assert await store.runs.order(third, ORG) == (KEY, wait, second, (1, False), (1, False))
    assert (await store.runs.get(third, ORG)).is_parked
    assert not (await store.runs.get(second, ORG)).is_parked


async def test_lists_find_parked_runs(store: Store) -> None:
    first, *others = await started(store, 3)
    [later] = await started(store, key="b", delay=60.0)

    async def found(text: str) -> set[str]:
        page = await store.run_lists.page(parse(text, RUNS), ORG, 10)
        assert (await store.run_lists.count(parse(text, RUNS), ORG)).number == len(page.lines)
        return {line.id for line in page.lines}

    assert await found("is:parked") == set(others)
    assert await found("is:waiting") == {*others, later}
    assert await found("-is:parked") == {first, later}
    assert await found("is:held") == set()


async def test_many_runs_behind_are_counted_up_to_a_limit(store: Store) -> None:
    first, *_, last = await started(store, MAX_IN_ORDER + 2)

    assert await store.runs.order(first, ORG) == (KEY, "wait", None, (0, False), (MAX_IN_ORDER, True))
    assert await store.runs.order(last, ORG) == (KEY, "wait", first, (MAX_IN_ORDER, True), (0, False))


# Workers of the previous version, and rows that were changed by hand


async def test_a_worker_of_the_previous_version_releases_the_next(store: Store) -> None:
    first, second, third, fourth = await started(store, 4)
    with previous_version():
        await store.records.record([Record(completed(await claim_head(store, first)))])
        letter_id = await buried(store, await claim_head(store, second))
        assert await claim(store) == []
        await close(store, letter_id, "IGNORED")
        await store.runs.cancel(third, ORG)
        await store.records.record([Record(completed(await claim_head(store, fourth)))])


async def test_a_lost_lease_keeps_the_head(store: Store) -> None:
    first, second = await started(store, 2)
    [lost] = await store.leases.claim("default", 10, holder(EXPIRED))
    assert lost.id == first
    [reclaimed] = await store.leases.reclaim(99, 60.0, 10)
    assert await claim(store) == []
    await store.records.record([Record(rescheduled(reclaimed, delay=-1.0))])
    await store.leases.promote(10)

    await store.records.record([Record(completed(await claim_head(store, first)))])
    await claim_head(store, second)


async def test_a_repair_settles_keys_whose_first_run_will_never_end(store: Store, database: Database) -> None:
    by_key = {key: await started(store, 2, key=key) for key in "abcd"}
    await buried(store, (await claim(store, 1))[0])  # of key a: nothing to repair
    await ask(database, "DELETE FROM redrive.run_order WHERE run_id = :id", id=by_key["b"][0])
    park = "UPDATE redrive.runs SET place = 'waiting', held_by = :held_by WHERE id = :id"
    if isinstance(database, SqliteDatabase):  # there, a trigger has released the second
        await ask(database, park, id=by_key["b"][1], held_by="order:b")
    assert await places_of(store, by_key["b"]) == ["ready", "waiting"]

    after, looked_at = FIRST_KEY, 0
    while looked_at == 0 or after != FIRST_KEY:
        after, looked_at = await store.runs.settle_orders(after, 3), looked_at + 1

    assert looked_at == 2
    assert await places_of(store, by_key["b"]) == ["ready", "ready"]
    for key in "acd":
        assert (await places_of(store, by_key[key]))[1] == "waiting"
