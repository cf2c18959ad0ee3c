"""Order keys: runs of one key are executed one at a time, in the order in which their starts committed."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from tests.store.build import (
    DEFINITION,
    ORG,
    advanced,
    ask,
    buried,
    claimed,
    column,
    completed,
    holder,
    new_run,
    parked,
    rescheduled,
    stopped,
    value,
)

from redrive.model.claim import Claim
from redrive.model.run import AfterFailure, NewRun, RunState
from redrive.store.database import Database
from redrive.store.record import Record
from redrive.store.store import Store

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
    assert await places_of(store, ids) == ["ready", "held", "held"]
    assert await column(database, ids[1], "held_by") == "order:customer-7"

    for run_id in ids:
        head = await claim_head(store, run_id)
        await store.records.record([Record(completed(head))])

    assert await places_of(store, ids) == ["ended"] * 3
    assert await keys_in_use(database) == []


async def test_runs_of_other_keys_and_organizations_do_not_wait(store: Store) -> None:
    first = await started(store)
    others = [*(await started(store, key="customer-8")), *(await started(store, org="acme"))]

    assert {run.id for run in await claim(store)} == {*first, *others}


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
    assert await places_of(store, [run.id for run in runs]) == ["ready"] * 4 + ["held"] * 2


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


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED])
async def test_a_run_that_ends_without_a_dead_letter_releases_the_next(store: Store, state: RunState) -> None:
    first, second = await started(store, 2)
    head = await claim_head(store, first)
    await store.records.record([Record(stopped(head, state=state))])

    await claim_head(store, second)


async def test_successors_wait_for_a_dead_letter(store: Store) -> None:
    first, second = await started(store, 2)
    await buried(store, await claim_head(store, first))

    assert await claim(store) == []
    assert await places_of(store, [second]) == ["held"]


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
    assert await places_of(store, [first, second, third]) == ["waiting", "held", "held"]

    await store.runs.cancel(first, ORG)
    await store.records.record([Record(completed(await claim_head(store, second)))])
    assert await places_of(store, [third]) == ["waiting"]


async def test_runs_without_a_key_leave_no_trace(store: Store, database: Database) -> None:
    await store.records.record([Record(completed(await claimed(store)))])

    assert await keys_in_use(database) == []
