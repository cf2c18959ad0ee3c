"""A changed policy, applied to histories of real attempts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from tests.engine.workbench import bench, new_app, working
from tests.store.build import adhoc

from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.ids import Ids
from redrive.errors import NotFoundError, RateLimitedError, RetryableError
from redrive.failures.what_if import FailureSelection, StepName, WhatIf, id_before, rows_to_read, what_if
from redrive.model.step import Effect
from redrive.parts import parts_of, rewire
from redrive.policy import STEP, Backoff, Exponential
from redrive.policy.comparison import PolicyComparison
from redrive.policy.policy_change import Alteration
from redrive.policy.retry import RetryPolicy
from redrive.policy.what_if import Proof
from redrive.store.database import Database
from redrive.testing import EPOCH, Harness, VirtualClock

HELD = adhoc("SELECT id FROM redrive.run_events WHERE kind = 'held'")
EVEN = Backoff(Exponential(10.0, 2.0))
"""Waits 10, 20, 40 s."""


def policy(attempts: int) -> RetryPolicy:
    return RetryPolicy(name="even", max_attempts=attempts, backoff=EVEN)


async def asked(app: Redrive, alteration: Alteration, org: str = "default", **wanted: Any) -> WhatIf:
    return await what_if(
        parts_of(app).store, parts_of(app).definitions, FailureSelection(org, 0.0, **wanted), alteration
    )


class Service:
    """A service that is down for some seconds; its calls fail meanwhile."""

    def __init__(self, clock: VirtualClock, until: float) -> None:
        self.clock = clock
        self.until = until

    def answer(self, number: int) -> int:
        if self.clock.time < self.until:
            raise TimeoutError("no answer")
        return number


@asynccontextmanager
async def outage(attempts: int, until: float, **options: Any) -> AsyncIterator[tuple[Redrive, Harness]]:
    """A run every seven seconds, through an outage at the beginning."""
    app = new_app()
    async with bench(app) as test:
        service = Service(test.clock, until)

        @app.task(name="charge", retry=policy(attempts), **options)
        def charge(number: int) -> int:
            return service.answer(number)

        for number in range(20):
            await app.start(charge, number)
            await test.advance(7.0)
        await test.advance(3_600.0)
        yield app, test


async def test_the_prediction_equals_the_real_outcome() -> None:
    async with outage(attempts=2, until=66.0) as (app, _):
        predicted = (await asked(app, Alteration(attempts=4))).total
    async with outage(attempts=4, until=66.0) as (app, _):
        real = (await asked(app, Alteration(attempts=4))).total

    assert predicted.recorded.dead_letters == 8
    assert predicted.avoided == {Proof.WORKED_AGAIN: 8}
    assert predicted.changed.dead_letters == real.recorded.dead_letters == 0
    assert predicted.changed.attempts == real.recorded.attempts
    assert sorted(predicted.changed.waits) == pytest.approx(sorted(real.recorded.waits))
    assert predicted.changed.minutes == real.recorded.minutes


async def test_the_prediction_for_a_shorter_policy_equals_the_real_outcome() -> None:
    async with outage(attempts=4, until=66.0) as (app, _):
        predicted = (await asked(app, Alteration(attempts=2))).total
    async with outage(attempts=2, until=66.0) as (app, _):
        real = (await asked(app, Alteration(attempts=2))).total

    assert (predicted.made, predicted.unsure) == (8, 0)
    assert predicted.changed.dead_letters == real.recorded.dead_letters == 8
    assert predicted.changed.attempts == real.recorded.attempts


async def test_the_original_policy_changes_nothing() -> None:
    async with outage(attempts=3, until=66.0) as (app, _):
        found = await asked(app, Alteration(attempts=3))
    total = found.total
    assert (found.runs, total.failures) == (20, 10)
    assert total.recorded.dead_letters == total.changed.dead_letters > 0
    assert total.recorded.minutes == total.changed.minutes
    assert (total.made, sum(total.avoided.values())) == (0, 0)


async def test_nor_where_breakers_hold_work_waits_are_drawn_and_errors_differ() -> None:
    """Seeded: an outage that opens a breaker, and errors of three kinds."""
    app, dice = new_app(), Random(7)
    async with bench(app) as test:

        @app.task(breaker="bank", timeout=9)
        def charge(number: int) -> int:
            if 300.0 < test.clock.time < 500.0:
                raise TimeoutError("no answer")
            match dice.randrange(12):
                case 0:
                    raise ConnectionError("reset")
                case 1:
                    raise RateLimitedError("slow down", retry_after=dice.choice([3.0, 30.0]))
                case 2 if number % 5 == 0:
                    raise ValueError("not a number")
            return number

        for number in range(250):
            await app.start(charge, number)
            await test.advance(4.0)
        await test.advance(3_600.0)

        total = (await asked(app, Alteration(attempts=STEP.max_attempts))).total
        held = await parts_of(app).store.database.fetch(HELD, {})
        assert total.recorded.dead_letters > 3
        assert held, "the breaker has held nothing"
        assert (total.made, sum(total.avoided.values())) == (0, 0)
        assert total.recorded.minutes == total.changed.minutes
        assert sorted(total.changed.waits) == pytest.approx(sorted(total.recorded.waits))


async def test_a_replay_that_succeeded_shows_when_it_worked() -> None:
    app = new_app()
    async with bench(app) as test:
        service = Service(test.clock, until=100.0)

        @app.task(retry=policy(2))
        def charge(number: int) -> int:
            return service.answer(number)

        await app.start(charge, 1)
        await test.advance(300.0)
        failures = app.failures()
        [letter] = (await failures.list("")).lines
        await failures.replay(letter.id)
        await test.drain()

        early, late = [await asked(app, Alteration(attempts=number)) for number in (5, 6)]
        assert (early.total.too_early, late.total.avoided) == (1, {Proof.ITSELF: 1})
        # Starts at 0, 10, 30, 70, 150 and 310 s; the replay succeeded at 300.
        assert late.total.changed.attempts == 6
        assert list(late.total.changed.waits) == [310.0]


async def test_a_replay_of_another_payload_shows_nothing() -> None:
    app = new_app()
    async with bench(app) as test:

        @app.task(retry=policy(2))
        def charge(number: int) -> int:
            if number < 0:
                raise TimeoutError("no answer")
            return number

        await app.start(charge, -1)
        await test.advance(60.0)
        failures = app.failures()
        [letter] = (await failures.list("")).lines
        await failures.replay(letter.id, payload=1, reason="a typing error")
        await test.drain()

        total = (await asked(app, Alteration(attempts=9))).total
        assert (total.unknown, total.recorded.attempts) == (1, 2)


async def orders(seconds: float) -> PolicyComparison:
    """Runs at this interval. Every third never succeeds; the other odd ones do on the second attempt."""
    app = new_app()
    async with bench(app) as test:
        tries: list[int] = []

        @app.task(retry=policy(3))
        def charge(number: int) -> int:
            tries.append(number)
            if number % 3 == 0 or (number % 2 and tries.count(number) == 1):
                raise TimeoutError("no answer")
            return number

        for number in range(1, 10):
            await app.start(charge, number)
            await test.advance(seconds)
        await test.advance(600.0)
        return (await asked(app, Alteration(attempts=6))).total


async def test_a_step_that_fails_while_others_succeed_stays_unknown() -> None:
    total = await orders(seconds=5.0)
    assert (total.recorded.dead_letters, total.unknown, total.avoided) == (3, 3, {})
    assert total.hoped_for["unknown"] == pytest.approx(3 * (1 - (1 - 3 / 9) ** 3))  # 3 of 9 retries helped


async def test_a_failure_in_sparse_traffic_counts_as_an_outage() -> None:
    """A limitation that the report and the guide name: no other run showed that the dependency worked."""
    total = await orders(seconds=60.0)
    assert (total.recorded.dead_letters, total.unknown) == (3, 1)
    assert total.avoided == {Proof.WORKED_AGAIN: 2}


async def test_final_errors_and_unsafe_steps_are_never_avoided() -> None:
    app = new_app()
    async with bench(app) as test:

        @app.task(retry=policy(2))
        def check(number: int) -> int:
            raise ValueError("not a number")

        @app.task(retry=policy(2), effect=Effect.UNSAFE)
        def pay(number: int) -> int:
            if number == 1:
                raise TimeoutError("no answer")
            return number

        await app.start(check, 1)
        await app.start(pay, 1)
        await test.advance(60.0)
        await app.start(pay, 2)
        await test.drain()

        total = (await asked(app, Alteration(attempts=9))).total
        assert (total.final, total.changed.attempts) == (2, 2)


async def test_waits_that_a_server_asked_for_are_read_from_the_record() -> None:
    """D4: a rate limit's wait is not counted; after a 503, the wait is at least that long."""
    app = new_app()
    async with bench(app) as test:
        answers: list[Exception] = [
            RateLimitedError("slow down", retry_after=300.0),
            RetryableError("busy", retry_after=100.0),
        ]

        @app.task(retry=policy(3))
        def charge(number: int) -> int:
            if answers:
                raise answers.pop(0)
            return number

        await app.start(charge, 1)
        await test.advance(600.0)

        total = (await asked(app, Alteration(base=1.0))).total
        assert (total.recorded.attempts, total.made) == (3, 0)
        assert list(total.changed.waits) == list(total.recorded.waits) == [400.0]


async def test_steps_that_share_a_breaker_show_of_one_another_that_it_works() -> None:
    app = new_app()
    async with bench(app) as test:
        service = Service(test.clock, until=50.0)

        @app.task(retry=policy(2), breaker="bank")
        def charge(number: int) -> int:
            return service.answer(number)

        @app.task(breaker="bank")
        def refund(number: int) -> int:
            return service.answer(number)

        app.workflow("checkout", [charge])
        await app.start("checkout", 1)
        await test.advance(60.0)
        await app.start(refund, 2)
        await test.drain()

        found = await asked(app, Alteration(attempts=4), workflow="checkout")
        assert found.total.avoided == {Proof.WORKED_AGAIN: 1}
        assert [(each.task, each.dependency) for each in found.steps.values()] == [("charge", "bank")]
        assert list(found.steps) == [StepName("checkout", "charge")]


async def test_unfinished_and_cancelled_steps_are_left_out() -> None:
    app = new_app()
    async with bench(app) as test:

        @app.task(retry=policy(5))
        def charge(number: int) -> int:
            raise TimeoutError("no answer")

        runs = [await app.start(charge, number) for number in range(2)]
        await test.advance(15.0)
        await runs[0].cancel()

        found = await asked(app, Alteration(attempts=9))
        assert (found.unfinished, found.total.failures, found.runs) == (2, 0, 2)


async def test_selection_and_orgs() -> None:
    """W13: failures of another organization are neither selected nor used as evidence."""
    async with outage(attempts=2, until=66.0, queue="money") as (app, _):
        assert (await asked(app, Alteration(attempts=4), org="acme")).runs == 0
        chosen = [
            {"queue": "money"},
            {"task": "charge"},
            {"step": "charge", "workflow": "charge"},
            {"queue": "other"},
        ]
        found = [await asked(app, Alteration(attempts=4), **each) for each in chosen]
        assert [each.total.failures for each in found] == [10, 10, 10, 0]
        with pytest.raises(NotFoundError, match=r"has a step 'chrage'; did you mean 'charge'\?"):
            await asked(app, Alteration(attempts=4), step="chrage")


async def test_progress_is_reported_while_reading() -> None:
    async with outage(attempts=2, until=66.0) as (app, _):
        told: list[int] = []
        wanted = FailureSelection("default", 0.0)
        await what_if(
            parts_of(app).store, parts_of(app).definitions, wanted, Alteration(attempts=3), told.append
        )
        assert sum(told) == await rows_to_read(parts_of(app).store, wanted) > 20


async def test_only_runs_since_then_are_looked_at() -> None:
    async with outage(attempts=2, until=66.0) as (app, _):
        wanted = FailureSelection("default", EPOCH + 7.0 * 4.5)
        found = await what_if(parts_of(app).store, parts_of(app).definitions, wanted, Alteration(attempts=4))
        assert (found.runs, found.total.failures) == (15, 5)


def test_ids_sort_behind_the_moment_they_were_made_at() -> None:
    clock = VirtualClock()
    ids = Ids(clock, Random(1))
    for _ in range(100):
        made, before = ids.new(), id_before(clock.now())
        assert before < made
        clock.advance(0.5)
        assert id_before(clock.now()) > made


async def test_on_each_database_with_a_real_worker(database: Database) -> None:
    app = new_app()
    rewire(app, database, SYSTEM_CLOCK, Random(1))
    down = True
    quick = RetryPolicy(name="quick", max_attempts=2, backoff=Backoff(Exponential(0.02, 2.0)))

    @app.task(retry=quick)
    def charge(number: int) -> int:
        if down:
            raise TimeoutError("no answer")
        return number

    @app.task(retry=quick)
    def mail(number: int) -> int:
        return number

    app.workflow("checkout", [charge, mail])
    async with working(app):
        failed = [await app.start("checkout", number) for number in range(3)]
        for run in failed:
            await run.wait()
        down = False
        for work in ("checkout", "charge"):
            await (await app.start(work, 9)).result()

    found = await asked(app, Alteration(attempts=15))
    assert (found.runs, found.total.failures, found.total.recorded.dead_letters) == (5, 3, 3)
    assert found.total.avoided == {Proof.WORKED_AGAIN: 3}
    assert found.attempts == 6
