"""The recorder and a database that fails: no record is lost, and none is written twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.engine.workbench import (
    EventCollector,
    Seam,
    bench,
    check_ended,
    lose_lease,
    new_app,
    seamed,
    settle,
    sql,
)

from redrive import Backoff, RetryPolicy
from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.engine.recording import advanced
from redrive.errors import StoreError, StoreUnavailableError
from redrive.model.claim import Isolation
from redrive.model.event import (
    LeaseLost,
    RetryScheduled,
    RunFinished,
    StepDied,
    StepRecovered,
    StepSucceeded,
    StoreFailed,
)
from redrive.model.run import Place
from redrive.model.step import StepState
from redrive.parts import parts_of
from redrive.policy import Exponential
from redrive.store.leases import Holder
from redrive.store.record import Completed, Record, Recorded, Rescheduled
from redrive.testing import Harness

TWICE = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(1.0)))


def story(app: Redrive) -> dict[str, list[int]]:
    """A workflow of two steps, the first of which fails once, and a task that dies.

    Collects attempts by name.
    """
    calls: dict[str, list[int]] = {}

    async def note(context: Context) -> None:
        calls.setdefault(context.step, []).append(context.attempt)

    @app.task(retry=TWICE)
    async def first(context: Context) -> str:
        await note(context)
        if context.attempt == 1:
            raise ConnectionError
        return "one"

    @app.task(retry=TWICE)
    async def second(before: str, context: Context) -> str:
        await note(context)
        return before + " two"

    @app.task(retry=TWICE)
    async def dead(context: Context) -> None:
        await note(context)
        raise ValueError

    app.workflow("flow", [first, second])
    return calls


STATEMENTS = [
    "complete_step",
    "advance_step",
    "reschedule",
    "stop",
    "insert_attempt",
    "insert_dead_letter",
]


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_write_that_fails_is_made_exactly_once(statement: str, after: bool) -> None:
    app = new_app()
    calls = story(app)
    emitted = EventCollector(app)
    async with seamed(app, watch=True) as (test, seam):
        flow, dead = await app.start("flow"), await app.start("dead")
        seam.fail(statement, after=after, times=2 if not after else 1)
        await settle(test, app)
        assert set(seam.triggered) == {statement}
        assert await flow.result() == "one two"
        await check_ended(app, 2)
        history = await flow.history()
        rows = await sql(app, "SELECT run_id, step_index, number FROM attempts")
    assert calls == {"first": [1, 2], "second": [1], "dead": [1]}
    assert [(each.step_index, each.number, each.outcome) for each in history.attempts] == [
        (0, 1, "failed"),
        (0, 2, "succeeded"),
        (1, 1, "succeeded"),
    ]
    assert len(rows) == len({tuple(row) for row in rows}) == 2
    told = Counter(type(each) for each in emitted.events)
    assert [told[each] for each in (StepSucceeded, RetryScheduled, StepRecovered, StepDied)] == [1, 1, 1, 1]
    assert told[RunFinished] == 2
    assert told[LeaseLost] == 0
    assert dead.id in {each.run_id for each in emitted.of(RunFinished)}


async def test_a_long_outage_of_the_database_is_survived() -> None:
    app = new_app()
    calls = story(app)
    async with seamed(app, watch=True) as (test, seam):
        flow = await app.start("flow")
        seam.fail("advance_step", times=3)
        seam.fail("advance_step", after=True)
        seam.fail("settled", times=60)
        await settle(test, app)
        assert await flow.result() == "one two"
        assert len(seam.triggered) == 63 + 1
        await check_ended(app, 1)
    # Longer than the lease: another worker might have started the second step, so this one does not.
    assert calls == {"first": [1, 2], "second": [2]}


async def test_a_batch_of_which_some_were_written_is_completed() -> None:
    """One lost answer for many runs; the second write adds the rest."""
    app = new_app()

    @app.task
    async def work(number: int) -> int:
        return number

    async with seamed(app, watch=True) as (test, seam):
        runs = await app.start_many(work, range(50))
        seam.fail("complete", after=True)
        seam.fail("complete")
        await test.drain()
        assert [await run.result() for run in runs] == list(range(50))
        await check_ended(app, 50)


async def test_a_bad_row_in_a_batch_does_not_take_the_others_with_it() -> None:
    """A trigger rejects one run, like a constraint; its lease expires, and another worker judges it."""
    app = new_app()
    emitted = EventCollector(app)
    refuse = """CREATE TRIGGER refuse BEFORE UPDATE ON runs WHEN NEW.result = '13'
        BEGIN SELECT RAISE(ABORT, 'unlucky'); END"""

    @app.task
    async def work(number: int) -> int:
        return number

    async with seamed(app, watch=True) as (test, _):
        runs = await app.start_many(work, range(20))
        await sql(app, refuse)
        await test.drain()
        states = [await run.state() for run in runs]
        assert [*map(str, states)] == ["SUCCESS"] * 13 + ["RUNNING"] + ["SUCCESS"] * 6
        assert [each.doing for each in emitted.of(StoreFailed)] == ["record"]
        assert "unlucky" in emitted.of(StoreFailed)[0].error
        await sql(app, "DROP TRIGGER refuse")
        test.clock.advance(61)
        await test.drain()
        assert await runs[13].result() == 13
        await check_ended(app, 20)


async def test_an_odd_error_of_the_database_does_not_end_the_recorder() -> None:
    app = new_app()

    @app.task
    async def work(number: int) -> int:
        return number

    async with seamed(app, timeout=3.0) as (test, seam):
        run = await app.start(work, 1)
        seam.fail("complete", error=StoreError("odd"))
        await test.drain()
        other = await app.start(work, 2)
        await test.drain()
        assert await other.result() == 2
        test.clock.advance(61)
        await test.drain()
        assert await run.result() == 1


async def test_a_result_whose_lease_is_lost_is_dropped_although_others_of_the_batch_are_written() -> None:
    app = new_app()
    emitted = EventCollector(app)

    @app.task
    async def work(number: int, context: Context) -> list[int]:
        if number == 3 and context.attempt == 1:
            await lose_lease(app, context.run_id)
        return [number, context.attempt]

    async with seamed(app, watch=True) as (test, _):
        runs = await app.start_many(work, range(6))
        await settle(test, app)
        results = [await run.result() for run in runs]
        await check_ended(app, 6)
    assert results == [[number, 2 if number == 3 else 1] for number in range(6)]
    assert [each.ref.run_id for each in emitted.of(LeaseLost)] == [runs[3].id]
    assert len(emitted.of(RunFinished)) == 6


async def test_two_records_of_one_run_in_one_batch_are_distinguished() -> None:
    """The attempt itself, and the record of its loss: only one of them has the lease."""
    app = new_app()

    @app.task
    async def work() -> int:
        return 1

    async with bench(app) as test:
        run = await app.start(work)
        [old] = await parts_of(app).store.leases.claim(
            "default", 1, Holder(token=1, worker="old", code_version="", ttl=60.0)
        )
        test.clock.advance(61)
        [new] = await parts_of(app).store.leases.reclaim(2, 60.0, 10)
        recorder = parts_of(app).worker_in_test()._recorder
        won: list[tuple[str, Recorded | None]] = []
        late = Record(Completed(id=old.id, token=old.token, epoch=old.epoch, result="1"))
        judged = Record(
            Rescheduled(
                id=new.id,
                token=new.token,
                epoch=new.epoch,
                place=Place.WAITING,
                step_state=StepState.PENDING,
                delay=5.0,
                failures=0,
                rate_limit_waits=0,
                holds=1,
                losses=1,
                isolated_crashes=0,
                isolation=Isolation.NONE,
                previous_delay=None,
                error_class=None,
                failed=False,
            )
        )
        recorder.put(late, lambda recorded: won.append(("late", recorded)))
        recorder.put(judged, lambda recorded: won.append(("judged", recorded)))
        await recorder.flush()
        assert won == [("late", None), ("judged", Recorded("waiting"))]
        assert (await run.view()).place == "waiting"


async def test_two_completions_of_one_run_in_one_batch_are_distinguished() -> None:
    """A worker lost a lease, claimed the run again and finishes both attempts."""
    app = new_app()
    emitted = EventCollector(app)

    @app.task
    async def work() -> int:
        return 1

    async with bench(app) as test:
        run = await app.start(work)
        store, worker = parts_of(app).store, parts_of(app).worker_in_test()
        [old] = await store.leases.claim("default", 1, Holder(token=1, worker="a", code_version="", ttl=60.0))
        test.clock.advance(61)
        [new] = await store.leases.reclaim(2, 60.0, 10)
        for claim, result in ((old, "1"), (new, "2")):
            worker._recorder.complete(await worker._executor.works.of(claim), result, 0.0)
        await worker._recorder.flush()
        assert await run.result() == 2
    assert [len(emitted.of(kind)) for kind in (LeaseLost, StepSucceeded, RunFinished)] == [1, 1, 1]


async def test_two_advances_of_one_run_in_one_batch_are_distinguished() -> None:
    """The same for a step that continues: only the attempt with the lease does."""
    app = new_app()
    emitted = EventCollector(app)

    @app.task
    async def work() -> int:
        return 1

    app.workflow("flow", [work.step("a"), work.step("b")])
    async with bench(app) as test:
        await app.start("flow")
        store, worker = parts_of(app).store, parts_of(app).worker_in_test()
        [old] = await store.leases.claim("default", 1, Holder(token=1, worker="a", code_version="", ttl=60.0))
        test.clock.advance(61)
        [new] = await store.leases.reclaim(2, 60.0, 10)
        answers = [
            worker._recorder.advance(
                await worker._executor.works.of(claim),
                advanced(claim, "1", "default", ttl=60.0, in_place=True),
                0.0,
            )
            for claim in (old, new)
        ]
        await worker._recorder.flush()
        assert [answer.result() for answer in answers] == [None, Recorded("leased")]
    assert [len(emitted.of(kind)) for kind in (LeaseLost, StepSucceeded)] == [1, 1]


# Claiming


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
async def test_a_claim_whose_answer_is_lost_is_adopted(after: bool) -> None:
    app = new_app()
    attempts: list[int] = []

    @app.task
    async def work(context: Context) -> None:
        attempts.append(context.attempt)

    async with seamed(app, watch=True) as (test, seam):
        await app.start_many(work, [None] * 5)
        seam.fail("claim", after=after)
        with pytest.raises(StoreUnavailableError):
            await test.drain()
        assert not attempts
        await test.drain()
        await check_ended(app, 5)
        assert ("adopt" in seam.executed) is True
    assert attempts == [1] * 5


async def test_a_claim_is_not_lost_when_its_adoption_fails_too() -> None:
    app = new_app()
    attempts: list[int] = []

    @app.task
    async def work(context: Context) -> None:
        attempts.append(context.attempt)

    async with seamed(app) as (test, seam):
        await app.start_many(work, [None] * 3)
        seam.fail("claim", after=True)
        seam.fail("adopt", times=2)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await test.drain()
        await test.drain()
        await check_ended(app, 3)
    assert attempts == [1] * 3


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
async def test_a_takeover_whose_answer_is_lost_is_finished(after: bool) -> None:
    """Without this read, the runs would wait until the lease of the takeover expires too."""
    app = new_app()
    attempts: list[int] = []

    @app.task(retry=TWICE)
    async def work(context: Context) -> None:
        attempts.append(context.attempt)
        if context.attempt == 1:
            await lose_lease(app, context.run_id)

    async with seamed(app) as (test, seam):
        await app.start_many(work, [None] * 3)
        seam.fail("reclaim", after=after)
        await drained(test, seam)
        await check_ended(app, 3)
        taken_over = [statement for statement in seam.executed if statement.startswith("reclaim")]
    assert sorted(attempts) == [1] * 3 + [2] * 3
    assert "reclaimed" in taken_over


@pytest.mark.parametrize("statement", ["reclaim", "promote", "release", "definition", "steps"])
@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
async def test_every_other_write_can_fail_without_losing_anything(statement: str, after: bool) -> None:
    app = new_app()

    @app.task(retry=TWICE)
    async def first(context: Context) -> str:
        if context.attempt == 1:
            await lose_lease(app, context.run_id)
        if context.attempt == 2:
            raise ConnectionError
        return "one"

    @app.task(concurrency=1, queue="other")
    async def second(before: str) -> str:
        return before + " two"

    app.workflow("flow", [first, second])
    async with seamed(app, watch=True) as (test, seam):
        runs = await app.start_many("flow", [None] * 4)
        seam.fail(statement, after=after, times=2)
        await drained(test, seam)
        assert [await run.result() for run in runs] == ["one two"] * 4
        await check_ended(app, 4)


async def drained(test: Harness, seam: Seam) -> None:
    """Let time pass, and try again when the database is away, as a worker does."""
    for _ in range(400):
        try:
            await test.advance(10.0)
        except StoreUnavailableError:
            continue
        if all(run.place == "ended" for run in await test.started()):
            return
    raise AssertionError("not everything has ended")


# Enqueueing


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("statement", ["define", "enqueue_new"])
async def test_starting_survives_a_short_outage_and_stores_nothing_twice(statement: str, after: bool) -> None:
    app = new_app()
    emitted = EventCollector(app)

    @app.task
    async def work(number: int) -> int:
        return number

    async with seamed(app) as (test, seam):
        seam.fail(statement, after=after)
        run = await app.start(work, 1)
        seam.fail("enqueue_new", after=after)
        many = await app.start_many(work, [2, 3])
        seam.fail("enqueue", after=after)
        keyed = await app.start(work, 4, key="k")
        assert (await app.start(work, 4, key="k")).id == keyed.id
        await test.drain()
        assert [await each.result() for each in (run, *many, keyed)] == [1, 2, 3, 4]
        await check_ended(app, 4)
    assert {each.doing for each in emitted.of(StoreFailed)} == {"enqueue"}


async def test_starting_does_not_wait_forever_for_a_database_that_is_away() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with seamed(app) as (test, seam):
        await app.open()
        seam.down = True
        with pytest.raises(StoreUnavailableError):
            await app.start(work)
        assert test.clock.time < 60.0
        seam.down = False
        await test.assert_nothing_started()
        await app.start(work)
        assert len(await test.started()) == 1


async def test_callers_that_start_at_once_share_a_write_and_not_each_others_mistakes() -> None:
    app = new_app()

    @app.task
    async def work(number: int) -> int:
        return number

    async with seamed(app) as (test, seam):
        await app.start(work, 0, key="taken")

        async def start(number: int) -> Any:
            key = "taken" if number == 7 else None
            return await app.start(work, number, key=key)

        before = len(seam.executed)
        answers = await asyncio.gather(*[start(number) for number in range(1, 21)], return_exceptions=True)
        assert sum(name.startswith("enqueue") for name in seam.executed[before:]) < 30
        mistakes = [each for each in answers if isinstance(each, BaseException)]
        assert [type(each).__name__ for each in mistakes] == ["ConflictError"]
        await test.drain()
        await check_ended(app, 20)


async def test_a_caller_that_gives_up_does_not_disturb_the_others() -> None:
    app = new_app()

    @app.task
    async def work(number: int) -> int:
        return number

    async with seamed(app) as (test, _):
        first = asyncio.create_task(app.start(work, 1))
        second = asyncio.create_task(app.start(work, 2))
        await asyncio.sleep(0)
        first.cancel()
        run = await second
        await asyncio.gather(first, return_exceptions=True)
        await test.drain()
        assert await run.result() == 2


async def test_after_an_outage_results_are_written_before_leases_are_taken_over() -> None:
    """The worker holds a result, and its own lease has expired. It must not take over its own run."""
    app = new_app()
    executed: list[int] = []

    @app.task
    async def work(context: Context) -> int:
        executed.append(context.attempt)
        return context.attempt

    async with bench(app) as test:
        run = await app.start(work)
        worker = parts_of(app).worker_in_test()
        await worker.claimer.claim(1)
        while not worker.parts.recorder.pending:
            await asyncio.sleep(0)
        test.clock.advance(120.0)
        maintaining = asyncio.create_task(worker.maintenance._maintain())
        await asyncio.sleep(0)
        recording = asyncio.create_task(worker.parts.recorder.run())
        await maintaining
        recording.cancel()
        assert await run.result() == 1
    assert executed == [1]
