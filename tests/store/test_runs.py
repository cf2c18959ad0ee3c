"""Enqueueing runs, looking them up, and cancelling them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.store.build import (
    DEFINITION,
    EXPIRED,
    ORG,
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
    tables,
    value,
)

from redrive.errors import ConflictError, NotFoundError, StoreError
from redrive.store.database import Database, OpenTransaction, Row, Session
from redrive.store.record import Record, Recorded
from redrive.store.runs import DefinitionRow, RunStore
from redrive.store.statement import Statement, statement
from redrive.store.store import Store

YEAR_9999 = 253_370_764_800.0


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def count(database: Database) -> int:
    return int(await value(database, "SELECT count(*) FROM redrive.runs"))


# Enqueueing


async def test_a_new_run_is_ready(store: Store, database: Database) -> None:
    run = new_run(priority=-7, org="acme", tags='["a"]', metadata='{"b":"ü"}', correlation_id="c")
    earliest = await value(database, "SELECT :now")

    assert await store.runs.enqueue([run], [DEFINITION]) == [run.id]

    stored = await store.runs.get(run.id, "acme")
    same = (
        "id",
        "org",
        "workflow",
        "definition",
        "queue",
        "priority",
        "input",
        "correlation_id",
        "metadata",
    )
    assert [getattr(stored, name) for name in same] == [getattr(run, name) for name in same]
    assert stored.tags == ("a",)
    assert (stored.state, stored.place, stored.step_state) == ("PENDING", "ready", "PENDING")
    assert (stored.step_index, stored.attempt, stored.failures, stored.due_at) == (0, 0, 0, None)
    assert earliest <= stored.submitted_at <= await value(database, "SELECT :now")
    assert await store.runs.outcome(run.id, "acme") == ("PENDING", None)
    assert await store.runs.definition(DEFINITION.digest) == DEFINITION.body


async def test_many_at_once_keep_their_order(store: Store, database: Database) -> None:
    runs = [new_run(input=f'"{number}"') for number in range(300)]

    assert await store.runs.enqueue(runs, [DEFINITION]) == [run.id for run in runs]

    assert await count(database) == 300
    assert (await store.runs.get(runs[299].id, ORG)).input == '"299"'
    assert len(await store.runs.all()) == 300


async def test_runs_of_several_owners_in_one_write_keep_their_owners_p8(store: Store) -> None:
    """One statement stores similar runs, and takes shared values from the first of them."""
    owners = ["ana", None, "ben"]
    runs = [new_run(owner=owner) for owner in owners]
    ids = await store.runs.enqueue(runs, [DEFINITION])
    assert [(await store.runs.origin(run_id, ORG)).owner for run_id in ids] == owners
    keyed = [new_run(owner=owner, idempotency_key=f"k{owner}", request_hash="h") for owner in owners]
    ids = await store.runs.enqueue(keyed, [DEFINITION])
    assert [(await store.runs.origin(run_id, ORG)).owner for run_id in ids] == owners


async def test_none_at_all(store: Store, database: Database) -> None:
    assert await store.runs.enqueue([], []) == []
    assert await count(database) == 0


async def test_the_same_ids_again_change_nothing(store: Store, database: Database) -> None:
    """A caller that does not know whether a run was stored may store it again."""
    runs = [new_run(), new_run(idempotency_key="key", request_hash="hash")]
    await store.runs.enqueue(runs, [DEFINITION])
    [claim] = await store.leases.claim("default", 1, holder())
    await store.records.record([Record(completed(claim))])
    before = await tables(database)

    assert await store.runs.enqueue([*runs, runs[0]], [DEFINITION]) == [runs[0].id, runs[1].id, runs[0].id]

    assert await tables(database) == before


async def test_pieces_that_are_stored_again_change_nothing(store: Store, database: Database) -> None:
    """The first try may have been committed although its response was lost."""
    pieces = [[new_run(), new_run()], [new_run()]]
    ids = [run.id for piece in pieces for run in piece]
    assert await store.runs.enqueue_pieces(pieces, [DEFINITION]) == ids
    before = await tables(database)

    assert await store.runs.enqueue_pieces(pieces, [DEFINITION]) == ids

    assert await tables(database) == before


async def test_some_of_a_batch_may_be_known(store: Store, database: Database) -> None:
    known, fresh = new_run(), new_run()
    await store.runs.enqueue([known], [])

    assert await store.runs.enqueue([fresh, known], []) == [fresh.id, known.id]
    assert await count(database) == 2


async def test_a_definition_is_written_once(store: Store, database: Database) -> None:
    await store.runs.enqueue([new_run()], [DEFINITION])
    await Store(database).runs.enqueue([new_run()], [DEFINITION._replace(body="another")])

    assert await store.runs.definition(DEFINITION.digest) == "{}"
    with pytest.raises(NotFoundError):
        await store.runs.definition("unknown")


async def test_a_definition_is_not_part_of_the_transaction_of_a_caller(
    store: Store, database: Database
) -> None:
    """Another caller that starts the same workflow would have to wait for that transaction."""
    await store.runs.define([DefinitionRow("other", "greet", "[]")])
    with pytest.raises(RuntimeError):
        async with database.transaction() as session:
            await store.runs.enqueue_within(session, [new_run()])
            raise RuntimeError

    assert await count(database) == 0
    assert await store.runs.definition("other") == "[]"


@pytest.mark.parametrize(
    ("delay", "place"),
    [(-60.0, "ready"), (0.0, "ready"), (0.5, "waiting"), (60.0, "waiting"), (1e9, "waiting")],
)
async def test_delayed(store: Store, delay: float, place: str) -> None:
    [run_id] = await enqueued(store, delay=delay)

    run = await store.runs.get(run_id, ORG)

    assert run.place == place
    wait = None if run.due_at is None else run.due_at - run.submitted_at
    assert wait == (None if place == "ready" else pytest.approx(delay, abs=1e-5))


@pytest.mark.parametrize(("at", "place"), [(0.0, "ready"), (-1e9, "ready"), (YEAR_9999, "waiting")])
async def test_at_an_instant_which_goes_before_a_delay(store: Store, at: float, place: str) -> None:
    [run_id] = await enqueued(store, at=at, delay=0.0 if place == "waiting" else 60.0)

    run = await store.runs.get(run_id, ORG)

    assert (run.place, run.due_at) == (place, at if place == "waiting" else None)


async def test_a_delayed_run_is_claimed_only_when_it_is_due(store: Store, database: Database) -> None:
    [run_id] = await enqueued(store, delay=60.0)
    assert await store.leases.promote(10) == []
    assert await store.leases.claim("default", 10, holder()) == []

    await ask(database, "UPDATE redrive.runs SET due_at = :now WHERE id = :id", id=run_id)

    assert await store.leases.promote(10) == ["default"]
    assert len(await store.leases.claim("default", 10, holder())) == 1


@pytest.mark.parametrize(
    "text", ["ü", "\U0001f600", "it's", 'a "b"', "x" * 100_000, "{}; DROP TABLE runs", "%s :now ?1 $1"]
)
async def test_texts_come_back_as_they_were(store: Store, text: str) -> None:
    run = new_run(
        org=text[:200], workflow=text[:200], queue=text[:200], input=text, correlation_id=text[:200]
    )
    await store.runs.enqueue([run], [])

    [claim] = await store.leases.claim(run.queue, 1, holder(), [run.workflow])

    assert (claim.org, claim.workflow, claim.queue) == (run.org, run.workflow, run.queue)
    assert (claim.input, claim.correlation_id) == (run.input, run.correlation_id)


# Idempotency keys


def keyed(key: str = "key", content: str = "hash", **changes: Any) -> Any:
    return new_run(idempotency_key=key, request_hash=content, **changes)


async def test_the_same_key_for_the_same_work_is_the_same_run(store: Store, database: Database) -> None:
    first, second = keyed(), keyed()
    await store.runs.enqueue([first], [])

    assert await store.runs.enqueue([second], []) == [first.id]
    assert await store.runs.enqueue([new_run(id="x"), keyed()], []) == ["x", first.id]
    assert await count(database) == 2


async def test_the_key_of_an_ended_run_is_still_known(store: Store) -> None:
    claim = await claimed(store, idempotency_key="key", request_hash="hash")
    await store.records.record([Record(completed(claim))])

    assert await store.runs.enqueue([keyed()], []) == [claim.id]


async def test_the_same_key_for_other_work_is_a_conflict(store: Store, database: Database) -> None:
    first = keyed()
    await store.runs.enqueue([first], [])

    with pytest.raises(ConflictError, match="key") as raised:
        await store.runs.enqueue([keyed(content="other")], [])

    assert raised.value.run_id == first.id
    assert first.id in str(raised.value)
    assert await count(database) == 1


async def test_a_conflict_refuses_the_whole_batch_i1(store: Store, database: Database) -> None:
    """All or nothing: a rejected batch leaves no run behind."""
    await store.runs.enqueue([keyed()], [])

    with pytest.raises(ConflictError):
        await store.runs.enqueue([new_run(), keyed(content="other"), new_run()], [])

    assert await count(database) == 1


async def test_a_key_twice_in_one_batch(store: Store, database: Database) -> None:
    one, same = keyed(), keyed()

    first, second, other = await store.runs.enqueue([one, same, new_run(id="x")], [])

    assert first == second
    assert first in (one.id, same.id)
    assert other == "x"
    assert {run.id for run in await store.runs.all()} == {first, "x"}


async def test_a_key_twice_in_one_batch_for_different_work(store: Store, database: Database) -> None:
    with pytest.raises(ConflictError):
        await store.runs.enqueue([keyed(), new_run(), keyed(content="other")], [])

    assert await count(database) == 0


async def test_orgs_have_their_own_keys_i8(store: Store, database: Database) -> None:
    mine, theirs = keyed(org="a"), keyed(org="b", content="other")

    assert await store.runs.enqueue([mine, theirs], []) == [mine.id, theirs.id]
    assert await store.runs.enqueue([keyed(org="b", content="other")], []) == [theirs.id]
    assert await count(database) == 2


async def test_one_key_enqueued_by_several_at_once_is_one_run(store: Store, database: Database) -> None:
    others = [Store(database.another()) for _ in range(4)]
    for number in range(5):
        runs = [keyed(f"key {number}") for _ in others]
        answers = await asyncio.gather(
            *[other.runs.enqueue([run], []) for other, run in zip(others, runs, strict=True)]
        )

        [[run_id]] = {tuple(answer) for answer in answers}
        assert run_id in {run.id for run in runs}
        assert await count(database) == number + 1
    for other in others:
        await other.close()


async def test_batches_of_keys_do_not_deadlock(store: Store, database: Database) -> None:
    """Both batches have the same keys in different orders; a deadlock would fail one of them."""
    other = Store(database.another())
    for number in range(6):
        forwards = [keyed(f"{number}-{each}") for each in range(200)]
        backwards = [keyed(f"{number}-{each}") for each in reversed(range(200))]

        mine, theirs = await asyncio.gather(
            store.runs.enqueue(forwards, []), other.runs.enqueue(backwards, [])
        )

        assert mine == theirs[::-1]
    await other.close()


async def test_batches_of_definitions_do_not_deadlock(store: Store, database: Database) -> None:
    other = Store(database.another())
    for number in range(6):
        definitions = [DefinitionRow(f"{number}-{each}", "greet", "{}") for each in range(50)]

        await asyncio.gather(
            store.runs.enqueue([new_run()], definitions), other.runs.enqueue([new_run()], definitions[::-1])
        )
    await other.close()


class _Between(OpenTransaction):
    """A session that calls a function before a statement."""

    def __init__(self, session: Session, before: Statement, happens: Any) -> None:
        self._session = session
        self._before = before
        self._happens = happens

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        if statement is self._before and self._happens is not None:
            happens, self._happens = self._happens, None
            await happens()
        return await self._session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        return await self._session.fetch_many(statement, rows)


async def test_a_run_that_is_removed_while_its_key_is_looked_up_is_not_lost_i1(
    store: Store, database: Database
) -> None:
    """Between the two statements, retention deletes the run that had the key."""

    async def remove() -> None:
        assert await store.runs.remove_expired(EXPIRED, 10) == 1

    claim = await claimed(store, idempotency_key="key", request_hash="hash")
    await store.records.record([Record(completed(claim))])
    session = _Between(database, statement("runs", "known"), remove)

    [run_id] = await store.runs.enqueue_within(session, [keyed()])

    assert (await store.runs.get(run_id, ORG)).id == run_id


# Looking up


@pytest.mark.parametrize("name", ["get", "outcome", "cancel", "steps", "attempts", "events"])
def test_everything_that_is_asked_of_a_run_is_asked_by_an_org_i8(name: str) -> None:
    """Decision 11: the organization is in every query."""
    assert "org" in inspect.signature(getattr(RunStore, name)).parameters


@pytest.mark.parametrize("name", ["get", "outcome", "cancel"])
async def test_a_run_of_another_org_does_not_exist_i8(store: Store, database: Database, name: str) -> None:
    claim = await claimed(store, org="a")
    before = await tables(database)

    for run_id, org in ((claim.id, "b"), (claim.id, ""), ("unknown", "a")):
        with pytest.raises(NotFoundError, match=run_id):
            await getattr(store.runs, name)(run_id, org)

    assert await tables(database) == before


async def test_counts_are_those_of_the_org_and_add_up_i8_i16(store: Store) -> None:
    await enqueued(store, 3, org="b")
    await enqueued(store, 2, org="a", delay=60.0)
    await enqueued(store, 4, org="a", queue="mail")
    claims = await store.leases.claim("mail", 3, holder())
    await store.records.record([Record(completed(claims[0])), Record(parked(claims[1]))])

    assert await store.runs.count_by_state("a") == {"PENDING": 4, "RUNNING": 1, "SUCCESS": 1}
    assert await store.runs.count_by_place("a") == {
        "waiting": 2,
        "ready": 1,
        "leased": 1,
        "held": 1,
        "ended": 1,
    }
    assert await store.runs.count_by_state("b") == {"PENDING": 3}
    assert await store.runs.count_by_state("c") == {}


# Cancelling


async def held(store: Store, claim: Any) -> None:
    await store.records.record([Record(parked(claim))])


async def waits(store: Store, claim: Any) -> None:
    await store.records.record([Record(rescheduled(claim))])


async def is_ready(store: Store, claim: Any) -> None:
    await store.records.record([Record(rescheduled(claim, place="ready"))])


async def is_alone(store: Store, claim: Any) -> None:
    await store.records.record([Record(rescheduled(claim, place="alone", isolation=1))])


@pytest.mark.parametrize("becomes", [held, waits, is_ready, is_alone])
async def test_an_idle_run_is_cancelled_at_once(store: Store, database: Database, becomes: Any) -> None:
    claim = await claimed(store)
    await becomes(store, claim)

    assert (await store.runs.cancel(claim.id, ORG)).answer == "cancelled"

    run = await store.runs.get(claim.id, ORG)
    assert (run.place, run.state, run.step_state) == ("ended", "CANCELLED", "CANCELLED")
    assert (run.due_at, run.held_by) == (None, None)
    assert run.ended_at == run.cancel_requested_at is not None
    assert await store.leases.claim("default", 10, holder()) == []
    assert await store.leases.claim_alone("default", holder()) == []
    assert await store.limits.holders() == []
    assert (await store.runs.cancel(claim.id, ORG)).answer == "ended"


async def test_a_leased_run_is_asked_to_stop(store: Store, database: Database) -> None:
    claim = await claimed(store)

    assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"
    first = await column(database, claim.id, "cancel_requested_at")
    await asyncio.sleep(0.002)
    assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"

    assert await column(database, claim.id, "place", "state", "token") == ("leased", "RUNNING", claim.token)
    assert await column(database, claim.id, "cancel_requested_at") == first is not None


async def test_a_finished_run_does_not_change(store: Store, database: Database) -> None:
    done = await claimed(store)
    await store.records.record([Record(completed(done))])
    dead = await claimed(store)
    await buried(store, dead)
    before = await tables(database)

    for claim in (done, dead):
        assert (await store.runs.cancel(claim.id, ORG)).answer == "ended"

    assert await tables(database) == before


async def test_a_run_that_is_released_at_that_moment_is_still_cancelled(
    store: Store, database: Database
) -> None:
    """The worker returns the run between the read of idle runs and that of leased runs."""
    claim = await claimed(store)
    worker = Store(database.another())
    giving_back: list[asyncio.Task[dict[str, Recorded]]] = []

    async def give_back() -> None:
        task = asyncio.create_task(worker.records.record([Record(rescheduled(claim))]))
        giving_back.append(task)
        await asyncio.wait({task}, timeout=0.1)  # it may have to wait for the cancellation

    interrupted = _Interrupted(database, statement("runs", "cancel_leased"), give_back)
    answer = (await Store(interrupted).runs.cancel(claim.id, ORG)).answer
    # If it is returned first, it waits and is cancelled there; if cancelled first, it is ready at once.
    assert places(await giving_back[0]) == {claim.id: "waiting" if answer == "cancelled" else "ready"}
    await worker.close()

    assert answer in ("cancelled", "requested")
    assert await column(database, claim.id, "cancel_requested_at") is not None


class _Interrupted(_Between):
    """A database that calls a function before a statement, in and outside transactions."""

    def __init__(self, database: Database, before: Statement, happens: Any) -> None:
        super().__init__(database, before, happens)
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._database.transaction() as session:
            yield _Between(session, self._before, self._happens)


async def test_a_cancellation_and_a_claim_at_once(store: Store, database: Database) -> None:
    other = Store(database.another())
    for _ in range(10):
        [run_id] = await enqueued(store)
        cancelled, claims = await asyncio.gather(
            store.runs.cancel(run_id, ORG), other.leases.claim("default", 1, holder())
        )

        assert (cancelled.answer, len(claims)) in {("cancelled", 0), ("requested", 1)}
        for claim in claims:
            await store.records.record([Record(completed(claim))])
    await other.close()


async def test_runs_of_all_kinds_are_stored_in_one_batch(store: Store) -> None:
    """Each run keeps its own values."""
    runs = [
        new_run(queue=f"queue {number % 2}", priority=number % 3, input=str(number)) for number in range(12)
    ]
    assert await store.runs.enqueue(runs, [DEFINITION]) == [run.id for run in runs]
    for number, run in enumerate(runs):
        found = await store.runs.get(run.id, ORG)
        assert (found.queue, found.priority, found.input) == (f"queue {number % 2}", number % 3, str(number))


async def test_a_mixed_batch_is_stored_as_a_whole_or_not_at_all(store: Store) -> None:
    runs = [new_run(queue="one"), new_run(queue="two").replace(input=None)]
    with pytest.raises(StoreError):
        await store.runs.enqueue(runs, [DEFINITION])
    assert await store.runs.count_by_place(ORG) == {}


async def test_batches_that_share_keys_do_not_deadlock(store: Store, database: Database) -> None:
    """Their runs differ otherwise; the store writes them in the order of their keys."""
    runs = [
        new_run(idempotency_key=f"key {number}", request_hash="same", tags=str(number % 3))
        for number in range(60)
    ]
    others = [run.replace(id=run.id[::-1]) for run in runs[::-1]]
    other = Store(database.another())
    first, second = await asyncio.gather(
        store.runs.enqueue(runs, [DEFINITION]), other.runs.enqueue(others, [DEFINITION])
    )
    assert first == second[::-1]
    await other.close()


async def test_the_newest_definition_of_each_workflow(store: Store, database: Database) -> None:
    """It does not matter how often another workflow has changed."""
    text = (
        "INSERT INTO redrive.definitions (digest, workflow, body, created_at)"
        " VALUES (:digest, :name, '', :at)"
    )
    for number in range(150):
        await ask(database, text, digest=f"often {number}", name="often", at=1_000.0 + number)
    for number in range(2):
        await ask(database, text, digest=f"rarely {number}", name="rarely", at=1.0 + number)
    assert await store.runs.newest_definitions({"often", "rarely", "never"}) == ["often 149", "rarely 1"]
