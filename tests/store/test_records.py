"""Fenced writes: the holder of the lease writes the outcome of a claim, once and completely."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.store.build import (
    EXPIRED,
    KINDS,
    ORG,
    advanced,
    advanced_in_place,
    ask,
    attempt_row,
    attempts_of,
    buried,
    claimed,
    column,
    completed,
    dead_letter_row,
    dead_letters_of,
    enqueued,
    event_row,
    events_of,
    full,
    holder,
    parked,
    places,
    rescheduled,
    step_row,
    steps_of,
    stopped,
    tables,
    value,
)

from redrive.errors import StoreError
from redrive.model.claim import Claim
from redrive.model.dead_letter import DeadLetter
from redrive.model.decision import DecisionFacts
from redrive.model.fact import fact
from redrive.store.database import Database
from redrive.store.record import Advanced, Occupied, Progress, Record
from redrive.store.rows import columns_of, read_row
from redrive.store.statement import statements
from redrive.store.store import Store

PLACES = {
    "completed": ("ended", "SUCCESS", "SUCCESS"),
    "advanced": ("ready", "RUNNING", "PENDING"),
    "advanced in place": ("leased", "RUNNING", "RUNNING"),
    "rescheduled": ("waiting", "RUNNING", "RETRYING"),
    "stopped": ("ended", "DLQ_PENDING", "DLQ"),
    "parked": ("held", "PENDING", "PENDING"),
}
FINISHED: dict[str, Callable[..., Any]] = {
    "completed": completed,
    "advanced": advanced,
    "advanced in place": advanced_in_place,
}
RETRY_FIELDS = (
    "failures",
    "rate_limit_waits",
    "holds",
    "losses",
    "isolated_crashes",
    "isolation",
    "previous_delay",
    "error_class",
    "first_failed_at",
    "last_failed_at",
    "slots",
    "progress",
)
CLEARED = (0, 0, 0, 0, 0, 0, None, None, None, None, None, None)


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def limit(database: Database, in_use: int, name: str = "mail") -> None:
    await ask(
        database,
        "INSERT INTO redrive.limits (name, maximum, in_use) VALUES (:name, 9, :in_use)",
        name=name,
        in_use=in_use,
    )


async def in_use(database: Database, name: str = "mail") -> int:
    return int(await value(database, "SELECT in_use FROM redrive.limits WHERE name = :name", name=name))


async def used_up(store: Store, **changes: int) -> Claim:
    """Claim a run with every counter above zero."""
    claim = await claimed(store)
    before = rescheduled(
        claim, delay=EXPIRED, failures=2, rate_limit_waits=3, holds=4, losses=5, isolated_crashes=6, **changes
    )
    await store.records.record([Record(before)])
    await store.leases.promote(1)
    take = (
        store.leases.claim_alone("default", holder())
        if changes
        else store.leases.claim("default", 1, holder())
    )
    [again] = await take
    await store.records.note_progress(
        [Progress(id=again.id, token=again.token, epoch=again.epoch, progress='{"done":1}')]
    )
    async with store.database.transaction() as session:
        await store.records.occupy(
            session, [Occupied(id=again.id, token=again.token, epoch=again.epoch, slots='["mail"]')]
        )
    return again


# Fencing


async def wrong_token(store: Store, claim: Claim) -> Claim:
    return claim.replace(token=claim.token + 1_000_000)


async def wrong_epoch(store: Store, claim: Claim) -> Claim:
    return claim.replace(epoch=claim.epoch + 1)


async def earlier_epoch(store: Store, claim: Claim) -> Claim:
    """Return the claim of the previous step, under the same lease."""
    await store.records.record([Record(advanced_in_place(claim))])
    return claim


async def reclaimed(store: Store, claim: Claim) -> Claim:
    await store.leases.renew([])
    await ask(store.database, "UPDATE redrive.runs SET leased_until = 1.0 WHERE id = :id", id=claim.id)
    assert len(await store.leases.reclaim(999_999, 60.0, 1)) == 1
    return claim


async def claimed_again(store: Store, claim: Claim) -> Claim:
    await reclaimed(store, claim)
    await store.records.record([Record(rescheduled(claim.replace(token=999_999), place="ready"))])
    assert len(await store.leases.claim("default", 1, holder())) == 1
    return claim


async def succeeded(store: Store, claim: Claim) -> Claim:
    await store.records.record([Record(completed(claim))])
    return claim


async def died(store: Store, claim: Claim) -> Claim:
    await buried(store, claim)
    return claim


async def given_back(store: Store, claim: Claim) -> Claim:
    await store.records.record([Record(rescheduled(claim))])
    return claim


async def cancelled(store: Store, claim: Claim) -> Claim:
    await store.records.record([Record(rescheduled(claim))])
    assert (await store.runs.cancel(claim.id, ORG)).answer == "cancelled"
    return claim


async def removed(store: Store, claim: Claim) -> Claim:
    await store.records.record([Record(completed(claim))])
    assert await store.runs.remove_expired(EXPIRED, 100) >= 1
    return claim


REASONS: list[Callable[[Store, Claim], Awaitable[Claim]]] = [
    wrong_token,
    wrong_epoch,
    earlier_epoch,
    reclaimed,
    claimed_again,
    succeeded,
    died,
    given_back,
    cancelled,
    removed,
]


@pytest.mark.parametrize("kind", KINDS)
async def test_without_the_lease_nothing_is_written_i4(store: Store, database: Database, kind: str) -> None:
    await limit(database, 5)
    for lose in REASONS:
        held = await claimed(store)
        await occupied(store, [held], ["mail"])
        claim = await lose(store, held)
        before = await tables(database)

        won = places(await store.records.record([full(KINDS[kind](claim), claim)]))

        assert won == {}, lose
        assert await tables(database) == before, lose
        await ask(database, "UPDATE redrive.runs SET place = 'ended', ended_at = 1.0")


@pytest.mark.parametrize("lose", REASONS)
async def test_a_plain_completion_without_the_lease_writes_nothing_i4(
    store: Store, database: Database, lose: Callable[[Store, Claim], Awaitable[Claim]]
) -> None:
    """The fast path, without a transaction."""
    claim = await lose(store, await claimed(store))
    before = await tables(database)

    assert await store.records.completions([completed(claim)]).write() == {}
    assert await tables(database) == before


@pytest.mark.parametrize("lose", REASONS)
@pytest.mark.parametrize("kind", FINISHED)
async def test_a_finished_step_without_the_lease_writes_nothing_i4(
    store: Store, database: Database, kind: str, lose: Callable[[Store, Claim], Awaitable[Claim]]
) -> None:
    claim = await lose(store, await claimed(store))
    before = await tables(database)

    assert await store.records.finished_steps([FINISHED[kind](claim)], [step_row(claim)]).write() == {}
    assert await tables(database) == before


async def test_finished_steps_of_a_batch_are_those_of_the_winners(store: Store) -> None:
    await enqueued(store, 4)
    claims = await store.leases.claim("default", 4, holder())
    await reclaimed(store, claims[3])
    changes: list[Any] = [
        completed(claims[0]),
        advanced_in_place(claims[1]),
        advanced(claims[2]),
        completed(claims[3]),
    ]

    won = await store.records.finished_steps(changes, [step_row(claim) for claim in claims]).write()

    assert places(won) == {claims[0].id: "ended", claims[1].id: "leased", claims[2].id: "ready"}
    steps = [[step.name for step in await steps_of(store, claim.id)] for claim in claims]
    assert steps == [["first"], ["first"], ["first"], []]


async def test_a_step_that_finishes_in_place_is_stored_and_the_next_one_starts(
    store: Store, database: Database
) -> None:
    claim = await claimed(store)
    step, change = step_row(claim), advanced_in_place(claim)

    assert places(await store.records.finished_steps([change], [step]).write()) == {claim.id: "leased"}

    [stored] = await steps_of(store, claim.id)
    assert stored.ended_at is not None
    assert stored.replace(ended_at=None) == step.replace(output=change.step_input)
    changed = await column(database, claim.id, "epoch", "step_index", "attempt", "step_input", "queue")
    assert changed == (claim.epoch + 1, 1, 1, change.step_input, change.queue)


async def test_the_last_step_is_stored_with_the_end_of_its_run(store: Store, database: Database) -> None:
    claim = await claimed(store)
    step, change = step_row(claim), completed(claim)

    assert places(await store.records.finished_steps([change], [step]).write()) == {claim.id: "ended"}

    [stored] = await steps_of(store, claim.id)
    assert stored.replace(ended_at=None) == step.replace(output=change.result)
    assert await column(database, claim.id, "state", "step_state", "result") == (
        *("SUCCESS", "SUCCESS"),
        change.result,
    )


async def test_a_finished_step_of_a_cancelled_run_is_handed_over(store: Store, database: Database) -> None:
    claim = await claimed(store)
    await store.runs.cancel(claim.id, ORG)

    won = await store.records.finished_steps([advanced_in_place(claim)], [step_row(claim)]).write()

    assert places(won) == {claim.id: "ready"}
    assert [step.name for step in await steps_of(store, claim.id)] == ["first"]


@pytest.mark.parametrize("kind", FINISHED)
async def test_a_finished_step_is_all_or_nothing_w2(store: Store, database: Database, kind: str) -> None:
    claim = await claimed(store)
    before = await tables(database)
    broken = step_row(claim).replace(task=None)

    with pytest.raises(StoreError):
        await store.records.finished_steps([FINISHED[kind](claim)], [broken]).write()

    assert await tables(database) == before


@pytest.mark.parametrize("kind", KINDS)
async def test_a_late_record_whose_token_still_matches_is_accepted(
    store: Store, database: Database, kind: str
) -> None:
    claim = await claimed(store, EXPIRED)

    assert places(await store.records.record([Record(KINDS[kind](claim))])) == {claim.id: PLACES[kind][0]}

    assert await column(database, claim.id, "place", "state", "step_state") == PLACES[kind]
    assert len(await store.leases.reclaim(999_999, 60.0, 10)) == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_record_counts_once_i4(store: Store, database: Database, kind: str) -> None:
    await limit(database, 5)
    claim = await claimed(store)
    await occupied(store, [claim], ["mail"])
    record = full(KINDS[kind](claim), claim)
    assert places(await store.records.record([record])) == {claim.id: PLACES[kind][0]}
    before = await tables(database)

    assert await store.records.record([record]) == {}

    assert await tables(database) == before
    assert await in_use(database) == 4


async def test_two_workers_that_record_one_claim_have_one_winner_i4(store: Store, database: Database) -> None:
    other = Store(database.another())
    for _ in range(5):
        claim = await claimed(store)
        answers = await asyncio.gather(
            store.records.record([Record(stopped(claim), dead_letter=dead_letter_row(claim))]),
            other.records.record([Record(completed(claim), step=step_row(claim))]),
        )

        assert [places(each) for each in sorted(answers, key=len)] == [{}, {claim.id: "ended"}]
        letters = await dead_letters_of(store, claim.id)
        steps = await steps_of(store, claim.id)
        assert (len(letters), len(steps)) == (len(answers[0]), len(answers[1]))
    await other.close()


async def test_one_lost_lease_does_not_cost_the_others_theirs(store: Store) -> None:
    await enqueued(store, 3)
    claims = await store.leases.claim("default", 3, holder())
    lost = claims[1].replace(token=-1)

    won = places(
        await store.records.record([full(stopped(claim), claim) for claim in (claims[0], lost, claims[2])])
    )

    assert won == {claims[0].id: "ended", claims[2].id: "ended"}
    assert await attempts_of(store, lost.id) == []
    assert await dead_letters_of(store, lost.id) == []


async def test_all_kinds_in_one_batch(store: Store, database: Database) -> None:
    await enqueued(store, len(KINDS))
    claims = await store.leases.claim("default", len(KINDS), holder())
    records = [Record(make(claim)) for make, claim in zip(KINDS.values(), claims, strict=True)]

    expected = {claim.id: PLACES[kind][0] for kind, claim in zip(KINDS, claims, strict=True)}
    assert places(await store.records.record(records)) == expected

    for kind, claim in zip(KINDS, claims, strict=True):
        assert await column(database, claim.id, "place", "state", "step_state") == PLACES[kind]


async def test_an_empty_batch(store: Store) -> None:
    assert await store.records.record([]) == {}


# Unknown commits


@pytest.mark.parametrize("kind", KINDS)
async def test_after_an_unknown_commit_written_open_and_lost_are_distinguished(
    store: Store, kind: str
) -> None:
    await enqueued(store, 3)
    written, unwritten, lost = await store.leases.claim("default", 3, holder())
    records = [Record(KINDS[kind](claim)) for claim in (written, unwritten, lost)]
    await store.records.record(records[:1])
    await reclaimed(store, lost)

    assert await store.records.applied([record.change for record in records]) == (
        {written.id: PLACES[kind][0]},
        {unwritten.id},
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_an_open_record_can_be_written(store: Store, kind: str) -> None:
    claim = await claimed(store)
    record = full(KINDS[kind](claim), claim)
    assert await store.records.applied([record.change]) == ({}, {claim.id})

    won = places(await store.records.record([record]))

    assert won == {claim.id: PLACES[kind][0]}
    assert await store.records.applied([record.change]) == (won, set())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lost_record_is_neither_written_nor_open(store: Store, kind: str) -> None:
    claim = await removed(store, await claimed(store))

    assert await store.records.applied([KINDS[kind](claim)]) == ({}, set())


async def test_a_finished_step_is_not_open_under_the_lease_of_the_next_one(store: Store) -> None:
    """The lease continues in place, so only the epoch tells the steps apart."""
    claim = await claimed(store)
    await store.records.record([Record(advanced_in_place(claim))])

    for kind in ("completed", "rescheduled", "stopped", "parked"):
        assert await store.records.applied([KINDS[kind](claim)]) == ({}, set())


@pytest.mark.parametrize("kind", ["advanced", "rescheduled", "parked"])
async def test_a_written_record_that_has_continued_since_is_not_open(store: Store, kind: str) -> None:
    claim = await claimed(store)
    record = Record(KINDS[kind](claim))
    await store.records.record([record])
    await ask(store.database, "UPDATE redrive.runs SET place = 'ready'")
    assert len(await store.leases.claim("default", 1, holder())) == 1

    _, still_open = await store.records.applied([record.change])

    assert still_open == set()


async def test_applied_of_an_empty_batch(store: Store) -> None:
    assert await store.records.applied([]) == ({}, set())


# Completing


async def test_success_clears_the_retry_fields_d8(store: Store, database: Database) -> None:
    claim = await used_up(store)
    assert await column(database, claim.id, *RETRY_FIELDS) != CLEARED

    await store.records.record([Record(completed(claim))])

    assert await column(database, claim.id, *RETRY_FIELDS) == CLEARED
    run = await store.runs.get(claim.id, ORG)
    assert (run.place, run.state, run.step_state, run.result) == ("ended", "SUCCESS", "SUCCESS", '"done"')
    assert (run.due_at, run.held_by) == (None, None)
    assert run.ended_at is not None
    assert await column(database, claim.id, "leased_until") is None
    assert await store.runs.outcome(claim.id, ORG) == ("SUCCESS", '"done"')


async def test_a_batch_gives_each_run_its_own_result(store: Store) -> None:
    await enqueued(store, 20)
    claims = await store.leases.claim("default", 20, holder())

    won = places(
        await store.records.record([Record(completed(claim, result=f'"{claim.id}"')) for claim in claims])
    )

    assert won == dict.fromkeys([claim.id for claim in claims], "ended")
    for claim in claims:
        assert await store.runs.outcome(claim.id, ORG) == ("SUCCESS", f'"{claim.id}"')


@pytest.mark.parametrize("beside", ["attempt", "event", "dead_letter", "step"])
async def test_rows_that_accompany_a_completion_are_written_too(
    store: Store, database: Database, beside: str
) -> None:
    """On both paths of a completion, the database writes everything or nothing."""
    claim = await claimed(store)
    everything = full(completed(claim), claim)
    record = Record(everything.change)._replace(**{beside: getattr(everything, beside)})

    await store.records.record([record])

    table = {"attempt": "attempts", "event": "run_events", "dead_letter": "dead_letters", "step": "steps"}[
        beside
    ]
    assert await value(database, f"SELECT count(*) FROM redrive.{table}") == 1


# Advancing


async def test_after_advancing_any_worker_may_claim_the_next_step(store: Store, database: Database) -> None:
    claim = await used_up(store)
    change = advanced(claim, queue="mail", step_input='{"sum":3}')

    won = places(await store.records.record([Record(change, step=step_row(claim))]))

    assert won == {claim.id: "ready"}

    assert await column(database, claim.id, *RETRY_FIELDS) == CLEARED
    leased = ("step_index", "attempt", "epoch", "leased_until", "attempt_started_at", "policy_override")
    assert await column(database, claim.id, *leased) == (1, 0, 2, None, None, None)
    assert await store.leases.claim("default", 1, holder()) == []
    [following] = await store.leases.claim("mail", 1, holder())
    assert (following.step_index, following.attempt, following.epoch) == (1, 1, 3)
    assert (following.payload, following.input) == ('{"sum":3}', claim.input)
    assert (following.submitted_at, following.priority) == (claim.submitted_at, claim.priority)


async def test_advancing_in_place_keeps_the_lease(store: Store, database: Database) -> None:
    claim = await used_up(store)

    won = places(
        await store.records.record([Record(advanced_in_place(claim, ttl=600.0), step=step_row(claim))])
    )

    assert won == {claim.id: "leased"}

    assert await column(database, claim.id, *RETRY_FIELDS) == CLEARED
    assert await column(database, claim.id, "step_index", "attempt", "epoch") == (1, 1, 3)
    leased = (claim.token, claim.worker, "leased", "RUNNING")
    assert await column(database, claim.id, "token", "worker", "place", "step_state") == leased
    started, expires = await column(database, claim.id, "attempt_started_at", "leased_until")
    assert expires - started == pytest.approx(600.0, abs=1e-5)
    assert started >= claim.attempt_started_at
    assert await store.records.record([Record(completed(claim))]) == {}
    following = claim.replace(epoch=3)
    assert places(await store.records.record([Record(completed(following))])) == {claim.id: "ended"}


async def test_advancing_in_place_leaves_a_lease_alone_that_is_half_full(
    store: Store, database: Database
) -> None:
    claim = await used_up(store)
    expires = await column(database, claim.id, "leased_until")

    await store.records.record([Record(advanced_in_place(claim, ttl=1.0), step=step_row(claim))])

    assert await column(database, claim.id, "leased_until") == expires


async def test_a_run_cancelled_in_the_meantime_does_not_continue_in_place(
    store: Store, database: Database
) -> None:
    """No worker may execute its next step; the recording worker learns this, and its lease has ended."""
    claim = await used_up(store)
    assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"
    record = Record(advanced_in_place(claim, queue="mail"), step=step_row(claim))

    won = places(await store.records.record([record]))

    assert won == {claim.id: "ready"}
    assert await store.records.applied([record.change]) == (won, set())
    assert await column(database, claim.id, *RETRY_FIELDS) == CLEARED
    assert await column(database, claim.id, "place", "state", "step_state") == PLACES["advanced"]
    leased = ("step_index", "attempt", "epoch", "leased_until", "attempt_started_at")
    assert await column(database, claim.id, *leased) == (1, 0, 2, None, None)
    assert [step.name for step in await steps_of(store, claim.id)] == ["first"]
    for epoch in (claim.epoch, claim.epoch + 1):
        assert await store.records.record([Record(completed(claim, epoch=epoch))]) == {}
    [following] = await store.leases.claim("mail", 1, holder())
    assert following.cancel_requested_at is not None
    assert (following.step_index, following.attempt, following.epoch) == (1, 1, 3)


async def test_only_runs_of_a_batch_that_were_not_cancelled_continue_in_place(store: Store) -> None:
    await enqueued(store, 3)
    claims = await store.leases.claim("default", 3, holder())
    assert (await store.runs.cancel(claims[1].id, ORG)).answer == "requested"
    records = [Record(advanced_in_place(claim)) for claim in claims]

    won = places(await store.records.record(records))

    assert won == {claims[0].id: "leased", claims[1].id: "ready", claims[2].id: "leased"}
    assert await store.records.applied([record.change for record in records]) == (won, set())
    following = [Record(completed(claim, epoch=claim.epoch + 1)) for claim in claims]
    assert places(await store.records.record(following)) == {claims[0].id: "ended", claims[2].id: "ended"}


async def test_a_finished_step_is_remembered(store: Store) -> None:
    claim = await claimed(store)

    await store.records.record([Record(advanced_in_place(claim), step=step_row(claim))])

    [step] = await steps_of(store, claim.id)
    assert (step.step_index, step.name, step.task) == (0, "first", "greet")
    assert (step.state, step.output, step.attempts) == ("SUCCESS", '"so far"', 1)
    assert (step.worker, step.code_version, step.started_at) == ("worker 1", "v1", claim.attempt_started_at)
    assert step.ended_at == (await store.runs.get(claim.id, ORG)).attempt_started_at


async def test_steps_come_in_order_and_a_repeated_one_replaces_its_row(store: Store) -> None:
    claim = await claimed(store)
    for index in (2, 0, 1):
        row = step_row(claim, step_index=index, name=f"step {index}")
        await store.records.record([Record(advanced_in_place(claim), step=row)])
        claim = claim.replace(epoch=claim.epoch + 1)
    again = step_row(claim, step_index=1, name="ignored", state="FAILED", output=None, attempts=7)
    await store.records.record([Record(advanced_in_place(claim), step=again)])

    steps = await steps_of(store, claim.id)

    assert [(step.step_index, step.state, step.attempts) for step in steps] == [
        (0, "SUCCESS", 1),
        (1, "FAILED", 7),
        (2, "SUCCESS", 1),
    ]


# Rescheduling


@pytest.mark.parametrize("delay", [0.25, 60.0, 86_400.0 * 30])
async def test_a_retry_waits_exactly_its_delay_by_the_clock_of_the_database_w1(
    store: Store, database: Database, delay: float
) -> None:
    claim = await claimed(store)
    earliest = await value(database, "SELECT :now")

    await store.records.record([Record(rescheduled(claim, delay=delay), attempt_row(claim, delay=delay))])

    run = await store.runs.get(claim.id, ORG)
    assert run.due_at is not None
    assert run.last_failed_at is not None
    assert run.due_at - run.last_failed_at == pytest.approx(delay, abs=1e-5)
    assert earliest <= run.last_failed_at <= await value(database, "SELECT :now")
    [attempt] = await attempts_of(store, claim.id)
    assert attempt.ended_at == run.last_failed_at
    assert (run.place, run.state, run.step_state) == ("waiting", "RUNNING", "RETRYING")


async def test_scheduling_a_retry_clears_the_lease_p3(store: Store, database: Database) -> None:
    claim = await used_up(store)

    await store.records.record([Record(rescheduled(claim))])

    assert await column(database, claim.id, "leased_until", "slots") == (None, None)
    assert await store.leases.adopt(claim.token, claim.worker) == []
    assert await store.leases.reclaim(999_999, 60.0, 10) == []


async def test_the_first_failure_is_kept_and_the_last_one_moves_w6(store: Store) -> None:
    claim = await claimed(store)
    await store.records.record([Record(rescheduled(claim, place="ready"))])
    first = await store.runs.get(claim.id, ORG)
    assert first.first_failed_at == first.last_failed_at is not None
    assert first.due_at is None
    await asyncio.sleep(0.002)
    [claim] = await store.leases.claim("default", 1, holder())

    await store.records.record([Record(rescheduled(claim, place="ready"))])

    second = await store.runs.get(claim.id, ORG)
    assert second.first_failed_at == first.first_failed_at
    assert second.last_failed_at is not None
    assert second.last_failed_at > first.last_failed_at
    assert (second.failures, second.attempt) == (2, 2)


async def test_a_wait_that_is_no_failure_leaves_the_failure_times_alone_d4(store: Store) -> None:
    claim = await claimed(store)
    change = rescheduled(claim, failures=0, rate_limit_waits=1, failed=0, error_class="rate_limited")

    await store.records.record([Record(change)])

    run = await store.runs.get(claim.id, ORG)
    assert (run.failures, run.rate_limit_waits, run.error_class) == (0, 1, "rate_limited")
    assert (run.first_failed_at, run.last_failed_at) == (None, None)


async def test_everything_that_was_used_up_is_kept(store: Store, database: Database) -> None:
    claim = await used_up(store, isolation=1)

    fields = RETRY_FIELDS[:8]
    assert await column(database, claim.id, *fields) == (2, 3, 4, 5, 6, 1, 60.0, "retryable")


@pytest.mark.parametrize("place", ["waiting", "ready", "alone"])
async def test_it_lies_where_it_was_put(store: Store, database: Database, place: str) -> None:
    claim = await claimed(store)

    assert places(await store.records.record([Record(rescheduled(claim, place=place))])) == {claim.id: place}

    assert await column(database, claim.id, "place") == place


@pytest.mark.parametrize("place", ["waiting", "ready", "alone"])
async def test_a_run_cancelled_in_the_meantime_is_ready_immediately(
    store: Store, database: Database, place: str
) -> None:
    claim = await claimed(store)
    assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"

    record = Record(rescheduled(claim, place=place))
    won = places(await store.records.record([record]))

    assert won == {claim.id: "ready"}
    assert await store.records.applied([record.change]) == (won, set())
    assert await column(database, claim.id, "place", "due_at") == ("ready", None)
    [again] = await store.leases.claim("default", 1, holder())
    assert again.cancel_requested_at is not None


async def test_a_run_cancelled_in_the_meantime_is_not_held(store: Store, database: Database) -> None:
    """A breaker may stay open for hours; the cancellation must not wait for it."""
    claim = await claimed(store)
    assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"

    assert places(await store.records.record([Record(parked(claim))])) == {claim.id: "ready"}

    assert await column(database, claim.id, "place", "held_by") == ("ready", None)


# Attempts and events

DECIDED = DecisionFacts("backoff", failures=1, max_attempts=4, seconds=60.0)


async def test_an_attempt_is_stored_with_its_decision(store: Store) -> None:
    claim = await claimed(store)
    row = attempt_row(claim)

    await store.records.record([Record(rescheduled(claim), row)])

    [attempt] = await attempts_of(store, claim.id)
    assert attempt == row.replace(ended_at=attempt.ended_at, decision=DECIDED)
    assert attempt.ended_at is not None
    assert attempt.ended_at >= claim.attempt_started_at


async def test_every_attempt_has_its_own_row(store: Store) -> None:
    claim = await claimed(store)
    for number in (1, 2, 3):
        row = attempt_row(claim, message=f"failure {number}")
        await store.records.record([Record(rescheduled(claim, place="ready"), row)])
        [claim] = await store.leases.claim("default", 1, holder())

    attempts = await attempts_of(store, claim.id)

    assert [(each.number, each.message) for each in attempts] == [
        (1, "failure 1"),
        (2, "failure 2"),
        (3, "failure 3"),
    ]


async def test_scheduling_an_attempt_twice_has_no_effect_w4(store: Store) -> None:
    """Run, step and number identify an attempt: the first row stays."""
    claim = await claimed(store)
    await store.records.record([Record(rescheduled(claim, place="ready"), attempt_row(claim))])
    [again] = await store.leases.claim("default", 1, holder())

    await store.records.record([Record(rescheduled(again), attempt_row(claim, message="another"))])

    assert [each.message for each in await attempts_of(store, claim.id)] == ["no answer"]


async def test_events_are_returned_in_order(store: Store) -> None:
    claim = await claimed(store)
    await store.records.record([Record(parked(claim), event=event_row(claim, id="b"))])
    await asyncio.sleep(0.002)
    await store.records.note_events(
        [event_row(claim, id="a", kind="released", detail='{"code":"released","by":"ada"}')]
    )

    events = await events_of(store, claim.id)

    assert [(event.id, event.kind, event.step_index, event.detail) for event in events] == [
        ("b", "held", 0, fact("held", holder="breaker:bank")),
        ("a", "released", 0, fact("released", by="ada")),
    ]
    assert events[0].at < events[1].at


async def test_progress_is_fenced(store: Store) -> None:
    claim = await claimed(store)
    await store.records.note_progress(
        [Progress(id=claim.id, token=claim.token, epoch=claim.epoch, progress="1")]
    )
    await store.records.note_progress(
        [Progress(id=claim.id, token=claim.token + 1, epoch=claim.epoch, progress="2")]
    )
    await store.records.note_progress(
        [Progress(id=claim.id, token=claim.token, epoch=claim.epoch + 1, progress="3")]
    )

    assert (await store.runs.get(claim.id, ORG)).progress == "1"


# Stopping


async def test_a_dead_letter_is_written_with_the_end_of_its_run_w2(store: Store) -> None:
    claim = await claimed(store, tags='["a"]', metadata='{"b":1}', correlation_id="c", queue="mail")
    row = dead_letter_row(claim)

    await store.records.record([Record(stopped(claim), attempt_row(claim), dead_letter=row)])

    run = await store.runs.get(claim.id, ORG)
    assert (run.place, run.state, run.step_state, run.failures) == ("ended", "DLQ_PENDING", "DLQ", 1)
    assert (run.error_class, run.due_at, run.worker) == ("final", None, claim.worker)
    assert run.ended_at == run.first_failed_at == run.last_failed_at is not None
    [letter] = await dead_letters_of(store, claim.id)
    given = set(statements("records")["insert_dead_letter"].postgres.names) - {"redrive_delay", "settings"}
    given_row = row.replace(decision="{}")
    stored = read_row(DeadLetter, columns_of(given_row)[: len(DeadLetter.__struct_fields__)])
    assert [getattr(letter, name) for name in given] == [getattr(stored, name) for name in given]
    assert (letter.stack, letter.decision) == ("Traceback", DECIDED)
    assert (letter.config, letter.policy, letter.public_message) == ({}, {}, "It took too long.")
    assert letter.next_redrive_at is None
    assert (letter.org, letter.workflow, letter.queue, letter.step_index) == (ORG, "greet", "mail", 0)
    assert (letter.state, letter.attempts, letter.failures, letter.replay_count) == ("OPEN", 1, 1, 0)
    assert (letter.tags, letter.metadata, letter.correlation_id) == (("a",), {"b": 1}, "c")
    assert (
        letter.created_at
        == letter.updated_at
        == letter.first_failed_at
        == letter.last_failed_at
        == run.ended_at
    )


async def test_an_end_that_is_no_failure_has_no_failure_times(store: Store) -> None:
    claim = await claimed(store)
    change = stopped(claim, state="CANCELLED", step_state="CANCELLED", failures=0, error_class=None, failed=0)

    await store.records.record([Record(change)])

    run = await store.runs.get(claim.id, ORG)
    assert (run.state, run.failures, run.first_failed_at, run.last_failed_at) == ("CANCELLED", 0, None, None)
    assert await dead_letters_of(store, claim.id) == []


async def replayed(database: Database, claim: Claim, state: str = "REPLAYING") -> None:
    """Requeue the run like a replay does, and update its dead letter."""
    await ask(
        database, "UPDATE redrive.runs SET place = 'ready', state = 'RUNNING' WHERE id = :id", id=claim.id
    )
    text = "UPDATE redrive.dead_letters SET state = :state, replay_count = 1 WHERE run_id = :id"
    await ask(database, text, id=claim.id, state=state)


@pytest.mark.parametrize("state", ["REPLAYING", "OPEN", "EXHAUSTED"])
async def test_dying_again_reopens_the_live_dead_letter_i7(
    store: Store, database: Database, state: str
) -> None:
    claim = await claimed(store)
    letter_id = await buried(store, claim)
    [before] = await dead_letters_of(store, claim.id)
    await replayed(database, claim, state)
    await asyncio.sleep(0.002)
    [again] = await store.leases.claim("default", 1, holder())
    row = dead_letter_row(again, message="another reason", title="another title", payload='{"new":1}')

    assert places(await store.records.record([Record(stopped(again), dead_letter=row)])) == {
        claim.id: "ended"
    }

    [letter] = await dead_letters_of(store, claim.id)
    assert (letter.id, letter.state, letter.replay_count) == (letter_id, "OPEN", 1)
    assert (letter.message, letter.title, letter.payload) == ("another reason", "another title", {"new": 1})
    assert (letter.attempts, letter.failures) == (2, 2)
    assert letter.created_at == before.created_at < letter.updated_at
    assert letter.first_failed_at == before.first_failed_at


@pytest.mark.parametrize("state", ["RESOLVED", "IGNORED", "ARCHIVED"])
async def test_dying_again_after_it_was_put_away_makes_a_new_dead_letter_i7(
    store: Store, database: Database, state: str
) -> None:
    claim = await claimed(store)
    await buried(store, claim)
    await replayed(database, claim, state)
    [again] = await store.leases.claim("default", 1, holder())

    await buried(store, again)

    assert sorted(letter.state for letter in await dead_letters_of(store, claim.id)) == sorted(
        ["OPEN", state]
    )


async def test_two_steps_of_a_run_have_a_dead_letter_each_i7(store: Store, database: Database) -> None:
    claim = await claimed(store)
    await buried(store, claim)
    await replayed(database, claim, "OPEN")
    [again] = await store.leases.claim("default", 1, holder())
    await store.records.record([Record(advanced_in_place(again))])

    await buried(store, again.replace(epoch=again.epoch + 1, step_index=1))

    assert {letter.step_index for letter in await dead_letters_of(store, claim.id)} == {0, 1}


@pytest.mark.parametrize(("state", "redrives"), [("REPLAYING", 2), ("RESOLVED", 0)])
@pytest.mark.parametrize("going_on", [advanced, advanced_in_place], ids=["handed over", "in place"])
async def test_the_next_step_continues_the_redrives_of_its_live_letter_i3(
    store: Store, database: Database, going_on: Callable[[Claim], Advanced], state: str, redrives: int
) -> None:
    claim = await claimed(store)
    await buried(store, claim)
    letters = (
        "UPDATE redrive.dead_letters SET state = :state, step_index = 1, redrives = 2 WHERE run_id = :id"
    )
    await ask(database, letters, id=claim.id, state=state)
    runs = "UPDATE redrive.runs SET place = 'ready', state = 'RUNNING', replays = 1 WHERE id = :id"
    await ask(database, runs, id=claim.id)
    [again] = await store.leases.claim("default", 1, holder())

    await store.records.record([Record(going_on(again))])

    assert await column(database, claim.id, "step_index", "redrives") == (1, redrives)


@pytest.mark.parametrize("broken", ["dead_letter", "attempt", "step", "event"])
async def test_all_or_nothing_w2(store: Store, database: Database, broken: str) -> None:
    """If the database rejects a row, the whole record fails, and all others of the batch."""
    await limit(database, 5)
    await enqueued(store, 3)
    claims = await store.leases.claim("default", 3, holder())
    await occupied(store, claims, ["mail"])
    records = [full(stopped(claim), claim) for claim in claims]
    missing = {"dead_letter": "message", "attempt": "reason", "step": "state", "event": "kind"}[broken]
    bad = getattr(records[1], broken).replace(**{missing: None})
    records[1] = records[1]._replace(**{broken: bad})
    before = await tables(database)

    with pytest.raises(StoreError):
        await store.records.record(records)

    assert await tables(database) == before
    # When the recorder retries them singly, the others are written.
    assert places(await store.records.record([records[0]])) == {claims[0].id: "ended"}
    assert places(await store.records.record([records[2]])) == {claims[2].id: "ended"}


async def test_a_record_in_a_transaction_that_fails_never_was(store: Store, database: Database) -> None:
    claim = await claimed(store)
    before = await tables(database)

    with pytest.raises(RuntimeError):
        async with database.transaction() as session:
            won = places(await store.records.record_within(session, [full(completed(claim), claim)]))
            assert won == {claim.id: "ended"}
            raise RuntimeError

    assert await tables(database) == before
    assert await store.records.applied([completed(claim)]) == ({}, {claim.id})


# Parking


async def test_a_held_run_was_not_attempted_i3(store: Store, database: Database) -> None:
    claim = await used_up(store)

    await store.records.record(
        [Record(parked(claim, holds=5, step_state="RETRYING"), event=event_row(claim))]
    )

    run = await store.runs.get(claim.id, ORG)
    assert (run.place, run.held_by, run.step_state) == ("held", "breaker:mail", "RETRYING")
    assert (run.attempt, run.failures, run.holds) == (1, 2, 5)
    assert await column(database, claim.id, "epoch", "leased_until") == (2, None)
    await store.limits.release("breaker:mail", 1)
    [again] = await store.leases.claim("default", 1, holder())
    assert (again.attempt, again.epoch) == (2, 3)


async def test_a_run_that_was_only_held_is_pending_and_has_no_start(store: Store, database: Database) -> None:
    """A run held before its first attempt never executed; a run held before a later one did."""
    await enqueued(store, 1)
    [claim] = await store.leases.claim("default", 1, holder())
    await store.records.record([Record(parked(claim))])
    assert await column(database, claim.id, "state", "started_at") == ("PENDING", None)

    await store.limits.release("breaker:mail", 1)
    [claim] = await store.leases.claim("default", 1, holder())
    await store.records.record([Record(rescheduled(claim, place="ready", delay=0.0))])
    state, started_at = await column(database, claim.id, "state", "started_at")
    assert state == "RUNNING"
    [claim] = await store.leases.claim("default", 1, holder())
    await store.records.record([Record(parked(claim, step_state="RETRYING"))])
    assert await column(database, claim.id, "state", "started_at") == ("RUNNING", started_at)
    assert started_at is not None


async def test_a_run_that_returns_before_its_first_attempt_is_pending(
    store: Store, database: Database
) -> None:
    await enqueued(store, 1)
    [claim] = await store.leases.claim("default", 1, holder())
    record = Record(rescheduled(claim, given_back=True, failures=0, step_state="PENDING"))
    await store.records.record([record])
    state = await column(database, claim.id, "state", "step_state", "attempt", "started_at")
    assert state == ("PENDING", "PENDING", 0, None)


# Slots


async def occupied(store: Store, claims: Sequence[Claim], names: list[str]) -> None:
    slots = json.dumps(names)
    async with store.database.transaction() as session:
        noted = [Occupied(id=claim.id, token=claim.token, epoch=claim.epoch, slots=slots) for claim in claims]
        await store.records.occupy(session, noted)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "parked"])
async def test_slots_are_freed_with_the_record(store: Store, database: Database, kind: str) -> None:
    await limit(database, 5, "mail")
    await limit(database, 2, "it's")
    claim = await claimed(store)
    async with database.transaction() as session:
        slots = json.dumps(["it's", "mail"])
        await store.records.occupy(
            session, [Occupied(id=claim.id, token=claim.token, epoch=claim.epoch, slots=slots)]
        )
    assert await column(database, claim.id, "slots") == slots

    await store.records.record([Record(KINDS[kind](claim), limited=True)])

    assert (await in_use(database, "mail"), await in_use(database, "it's")) == (4, 1)
    assert await column(database, claim.id, "slots") is None


async def test_slots_of_a_batch_are_counted_together_and_never_below_zero(
    store: Store, database: Database
) -> None:
    await limit(database, 5, "mail")
    await limit(database, 1, "fax")
    await enqueued(store, 3)
    claims = await store.leases.claim("default", 3, holder())
    await occupied(store, claims, ["mail", "fax", "none"])

    await store.records.record([Record(completed(claim), limited=True) for claim in claims])

    assert (await in_use(database, "mail"), await in_use(database, "fax")) == (2, 0)


async def test_concurrent_records_free_every_slot(store: Store, database: Database) -> None:
    await limit(database, 24, "a")
    await limit(database, 24, "b")
    await enqueued(store, 24)
    claims = await store.leases.claim("default", 24, holder())
    await occupied(store, claims[::2], ["a", "b"])
    await occupied(store, claims[1::2], ["b", "a"])
    others = [Store(database.another()) for _ in range(4)]

    async def record(other: Store, mine: list[Claim]) -> None:
        for claim in mine:
            await other.records.record([Record(completed(claim), limited=True)])

    await asyncio.gather(*[record(other, claims[number::4]) for number, other in enumerate(others)])
    for other in others:
        await other.close()

    assert (await in_use(database, "a"), await in_use(database, "b")) == (0, 0)


async def test_slots_that_were_never_noted_are_not_freed(store: Store, database: Database) -> None:
    """The worker assumes that it has the slots, but taking them was rolled back: others have them (I16)."""
    await limit(database, 2, "mail")
    claim = await claimed(store)
    await store.records.record([Record(completed(claim), limited=True)])
    assert await in_use(database, "mail") == 2


async def test_slots_are_noted_under_the_lease_only(store: Store, database: Database) -> None:
    claim = await claimed(store)
    wrong = [
        Occupied(id=claim.id, token=claim.token + 1, epoch=claim.epoch, slots="[]"),
        Occupied(id=claim.id, token=claim.token, epoch=claim.epoch + 1, slots="[]"),
    ]
    async with database.transaction() as session:
        await store.records.occupy(session, wrong)

    assert await column(database, claim.id, "slots") is None


def fence(claim: Claim, slots: str | None = None) -> Occupied:
    return Occupied(id=claim.id, token=claim.token, epoch=claim.epoch, slots=slots)


async def test_recorded_slots_are_returned(store: Store, database: Database) -> None:
    await enqueued(store, 3)
    claims = await store.leases.claim("default", 3, holder())
    one, two, none = (claim.id for claim in claims)
    async with database.transaction() as session:
        assert await store.records.occupied(session, []) == {}
        known = await store.records.occupied(session, [fence(claim) for claim in claims])
        assert known == {one: None, two: None, none: None}
        await store.records.occupy(session, [fence(claims[0], '["mail"]'), fence(claims[1], '["it\'s"]')])

        # The stored slots count, not those in the request.
        known = await store.records.occupied(session, [fence(claim, '["fax"]') for claim in claims])

    assert known == {one: '["mail"]', two: '["it\'s"]', none: None}
    assert [await column(database, claim.id, "slots") for claim in claims] == [known[one], known[two], None]


async def test_noted_slots_can_be_taken_back(store: Store, database: Database) -> None:
    claim = await claimed(store)
    async with database.transaction() as session:
        await store.records.occupy(session, [fence(claim, '["mail"]')])
        await store.records.occupy(session, [fence(claim)])

        assert await store.records.occupied(session, [fence(claim)]) == {claim.id: None}


@pytest.mark.parametrize("lose", REASONS)
async def test_slots_are_not_returned_without_the_lease_i4(
    store: Store, database: Database, lose: Callable[[Store, Claim], Awaitable[Claim]]
) -> None:
    lost = await claimed(store)
    async with database.transaction() as session:
        await store.records.occupy(session, [fence(lost, '["mail"]')])
    lost = await lose(store, lost)
    kept = await claimed(store, queue="mail")

    async with database.transaction() as session:
        known = await store.records.occupied(session, [fence(lost), fence(kept)])

    assert known == {kept.id: None}
