"""Breakers that hold work: opened by the window, probed, released in growing steps (P4, P5, I11)."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, bench, check_ended, new_app, seamed, settle, sql

from redrive import Backoff, BreakerPolicy, RetryPolicy
from redrive.app import Redrive
from redrive.engine.shared_breakers import SharedBreaker
from redrive.errors import HttpStatusError, InvalidValueError, RateLimitedError
from redrive.model.event import BreakerChanged, StepHeld
from redrive.model.fact import fact
from redrive.parts import parts_of
from redrive.policy import Exponential
from redrive.policy.breaker_policy import Ramp
from redrive.testing import EPOCH, Harness

ONCE = RetryPolicy(max_attempts=1, backoff=Backoff(Exponential(1.0)))
FOUR = BreakerPolicy(window_calls=4, minimum_calls=4, cool_down=30.0, probe_slots=2, successes_to_close=2)


class Bank:
    """A dependency that is up or down, and counts its calls."""

    def __init__(self, policy: BreakerPolicy = FOUR, *, retry: RetryPolicy = ONCE, **options: Any) -> None:
        self.app: Redrive = new_app()
        self.down = True
        self.calls: list[float] = []
        self.now = self.most = 0
        self.test: Harness | None = None
        self.app.breaker("bank", policy, **options)
        self.pay = self.app.task(name="pay", breaker="bank", retry=retry)(self._pay)

    async def _pay(self) -> str:
        assert self.test is not None
        self.calls.append(self.test.clock.time)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        if self.down:
            raise ConnectionError("the bank is down")
        return "paid"

    async def state(self) -> SharedBreaker:
        [state] = await parts_of(self.app).breakers.all()
        return state


def new_bank(policy: BreakerPolicy = FOUR, *, retry: RetryPolicy = ONCE, **options: Any) -> Bank:
    return Bank(policy, retry=retry, **options)


async def open_it(bank: Bank, test: Harness) -> None:
    """Open the breaker with four failures."""
    bank.test = test
    await bank.app.start_many(bank.pay, [None] * 4)
    await test.drain()
    assert (await bank.state()).state == "OPEN"
    assert len(bank.calls) == 4
    bank.calls.clear()
    bank.most = 0


async def test_it_opens_when_half_of_the_window_has_failed_and_not_before() -> None:
    bank = new_bank()
    async with bench(bank.app) as test:
        bank.test = test
        for down, state in ((False, "CLOSED"), (False, "CLOSED"), (True, "CLOSED"), (True, "OPEN")):
            bank.down = down
            await bank.app.start(bank.pay)
            await test.drain()
            assert (await bank.state()).state == state
        await bank.app.start(bank.pay)
        await test.advance(29.9)
        assert len(bank.calls) == 4


async def test_p4_a_quiet_dependency_that_always_fails_is_held_after_five_calls() -> None:
    bank = new_bank(BreakerPolicy())
    async with bench(bank.app) as test:
        bank.test = test
        for _ in range(4):
            await bank.app.start(bank.pay)
            await test.advance(20.0)
        assert (await bank.state()).state == "CLOSED"
        await bank.app.start(bank.pay)
        await test.drain()
        assert (await bank.state()).state == "OPEN"


async def test_the_documented_window_of_twenty_calls() -> None:
    bank = new_bank(BreakerPolicy(window_seconds=None))
    async with bench(bank.app) as test:
        bank.test = test
        for _ in range(19):
            await bank.app.start(bank.pay)
            await test.drain()
        assert (await bank.state()).state == "CLOSED"
        await bank.app.start(bank.pay)
        await test.drain()
        assert (await bank.state()).state == "OPEN"


@pytest.mark.parametrize(
    "error",
    [HttpStatusError("no", status=400), HttpStatusError("no", status=404), RateLimitedError(), ValueError()],
    ids=["400", "404", "429", "our own"],
)
async def test_errors_that_are_not_the_fault_of_the_dependency_do_not_open_it(error: Exception) -> None:
    app = new_app()
    app.breaker("bank", FOUR)

    @app.task(breaker="bank", retry=ONCE)
    async def pay() -> None:
        raise error

    async with bench(app) as test:
        await app.start_many(pay, [None] * 12)
        await test.drain()
        assert all(each.state == "CLOSED" for each in await parts_of(app).breakers.all())
        await check_ended(app, 12)


async def test_held_work_waits_uncharged_and_visible_while_other_work_continues() -> None:
    bank = new_bank()

    @bank.app.task
    async def other() -> str:
        return "done"

    emitted = EventCollector(bank.app)
    async with seamed(bank.app, watch=True) as (test, _):
        await open_it(bank, test)
        runs = await bank.app.start_many(bank.pay, [None] * 5)
        free = await bank.app.start(other)
        await test.drain()
        assert await free.result() == "done"
        for run in runs:
            row = await run.view()
            assert (row.place, row.held_by, row.step_state) == ("held", "breaker:bank", "PENDING")
            assert (row.attempt, row.failures, row.holds) == (0, 0, 1)
            events = [each for each in (await run.history()).events if each.what == "held"]
            assert events[0].detail == fact("held", holder="breaker:bank")
        assert len(emitted.of(StepHeld)) == 5
        await test.advance(29.0)
        assert not bank.calls
        bank.down = False
        await settle(test, bank.app)
        assert [await run.result() for run in runs] == ["paid"] * 5
        assert min(bank.calls) >= 30.0
        assert {(await run.view()).attempt for run in runs} == {1}
        await check_ended(bank.app, 10)


async def test_probes_never_exceed_their_slots() -> None:
    """I11: two slots, and twenty waiting runs."""
    bank = new_bank(BreakerPolicy(window_calls=4, minimum_calls=4, probe_slots=2, successes_to_close=6))
    async with bench(bank.app) as test:
        await open_it(bank, test)
        bank.down = False
        await bank.app.start_many(bank.pay, [None] * 20)
        await test.advance(30.0)
        assert bank.calls
        while (await bank.state()).state == "HALF_OPEN":
            assert bank.most <= 2
            before = len(bank.calls)
            await test.advance(1.0)
            assert len(bank.calls) > before
        assert len(bank.calls) >= 6
        await settle(test, bank.app)
        await check_ended(bank.app, 24)


async def test_a_failed_probe_opens_it_again_for_a_whole_cool_down() -> None:
    bank = new_bank()
    async with bench(bank.app) as test:
        await open_it(bank, test)
        await bank.app.start_many(bank.pay, [None] * 10)
        await test.advance(200.0)
        assert bank.most <= 2
        assert {moment % 30.0 for moment in bank.calls} == {0.0}
        assert max(Counter(bank.calls).values()) <= 2
        assert all(late - early in (0.0, 30.0) for early, late in pairwise(bank.calls))
        bank.down = False
        await settle(test, bank.app)
        await check_ended(bank.app, 14)


async def test_held_work_is_released_in_growing_steps() -> None:
    bank = new_bank(ramp=Ramp(first=3, factor=2.0, every=1.0))
    async with bench(bank.app) as test:
        await open_it(bank, test)
        bank.down = False
        await bank.app.start_many(bank.pay, [None] * 42)
        await test.advance(60.0)
        await check_ended(bank.app, 46)
    per_second = Counter(int(moment) for moment in bank.calls)
    assert sum(per_second.values()) == 42
    counts = [count for _, count in sorted(per_second.items())]
    # Two probes and the first step at once, then twice as many every second.
    assert counts == [5, 6, 12, 19]
    assert sorted(per_second) == [30, 31, 32, 33]


async def test_a_probe_function_decides() -> None:
    asked: list[float] = []
    healthy = False

    async def probe() -> bool:
        asked.append(test.clock.time)
        return healthy

    bank = new_bank(probe=probe)
    async with bench(bank.app) as test:
        await open_it(bank, test)
        bank.down = False
        runs = await bank.app.start_many(bank.pay, [None] * 5)
        await test.advance(70.0)
        assert not bank.calls
        assert {moment % 30.0 for moment in asked} == {0.0}
        healthy = True
        await test.advance(60.0)
        assert [await run.state() for run in runs] == ["SUCCESS"] * 5


@pytest.mark.parametrize("answer", [False, ConnectionError("still down"), "sync False"])
async def test_a_probe_that_raises_or_returns_false_keeps_it_open(answer: Any) -> None:
    asked: list[int] = []

    async def probe() -> bool:
        asked.append(1)
        if isinstance(answer, Exception):
            raise answer
        return False

    def sync_probe() -> bool:
        asked.append(1)
        return False

    bank = new_bank(probe=sync_probe if isinstance(answer, str) else probe)
    async with bench(bank.app) as test:
        await open_it(bank, test)
        bank.down = False
        await bank.app.start(bank.pay)
        await test.advance(95.0)
        assert not bank.calls
        assert len(asked) == 3


async def test_a_person_can_open_and_close_it() -> None:
    bank = new_bank()
    bank.down = False
    emitted = EventCollector(bank.app)
    async with bench(bank.app) as test:
        bank.test = test
        await bank.app.breakers(by="ann").force("bank", "OPEN", reason="maintenance")
        run = await bank.app.start(bank.pay)
        await test.advance(10_000.0)
        assert not bank.calls
        state = (await bank.state()).snapshot
        assert state.force is not None
        assert (state.state, state.force.reason, state.force.by) == ("OPEN", "maintenance", "ann")
        await bank.app.breakers(by="ann").force("bank", "CLOSED", reason="over")
        await test.advance(1.0)
        assert await run.state() == "SUCCESS"
    assert emitted.of(BreakerChanged) == [
        BreakerChanged(breaker="bank", before="CLOSED", after="OPEN", reason="forced by ann: maintenance"),
        BreakerChanged(breaker="bank", before="OPEN", after="CLOSED", reason="forced by ann: over"),
    ]


async def test_forced_closed_it_counts_nothing() -> None:
    bank = new_bank()
    async with bench(bank.app) as test:
        bank.test = test
        await bank.app.breakers().force("bank", "CLOSED", reason="we know")
        await bank.app.start_many(bank.pay, [None] * 40)
        await test.drain()
        assert len(bank.calls) == 40
        assert (await bank.state()).state == "CLOSED"
        await bank.app.breakers().release("bank")
        await bank.app.start_many(bank.pay, [None] * 4)
        await test.drain()
        assert (await bank.state()).state == "OPEN"


@pytest.mark.parametrize("seconds", [600.0, timedelta(minutes=10)])
async def test_a_forced_state_ends_by_itself(seconds: Any) -> None:
    bank = new_bank()
    bank.down = False
    async with bench(bank.app) as test:
        bank.test = test
        await bank.app.breakers().force("bank", "OPEN", reason="maintenance", seconds=seconds)
        run = await bank.app.start(bank.pay)
        await test.advance(599.0)
        assert not bank.calls
        await test.advance(2.0)
        assert await run.state() == "SUCCESS"
        assert 600.0 <= bank.calls[0] <= 601.0


@pytest.mark.parametrize(
    "options",
    [
        {"state": "HALF_OPEN"},
        {"state": "AJAR"},
        {"seconds": -1.0},
        {"seconds": timedelta(seconds=-1)},
        {"seconds": float("nan")},
        {"reason": 5},
    ],
    ids=str,
)
async def test_an_odd_force_is_refused(options: dict[str, Any]) -> None:
    app = new_app()
    async with bench(app):
        with pytest.raises(InvalidValueError):
            await app.breakers().force("bank", **{"state": "OPEN", "reason": "x", **options})


async def test_work_that_is_held_too_often_ends() -> None:
    policy = RetryPolicy(max_attempts=1, backoff=Backoff(Exponential(1.0)), max_holds=3)
    bank = new_bank(retry=policy)
    async with bench(bank.app) as test:
        await open_it(bank, test)
        runs = await bank.app.start_many(bank.pay, [None] * 12)
        await settle(test, bank.app)
        letters = [await run.dead_letter() for run in runs]
        reasons = Counter(letter.reason for letter in letters if letter is not None)
        await check_ended(bank.app, 16)
    assert set(reasons) <= {"holds_spent", "attempts_spent"}
    assert sum(reasons.values()) == 12


async def test_a_hint_of_the_server_keeps_it_open_longer() -> None:
    app = new_app()
    app.breaker("bank", FOUR)

    @app.task(breaker="bank", retry=ONCE)
    async def pay() -> None:
        raise HttpStatusError("busy", status=503, headers={"retry-after": "100"})

    async with bench(app) as test:
        await app.start_many(pay, [None] * 4)
        await test.drain()
        [state] = await parts_of(app).breakers.all()
        assert state.snapshot.open_until == EPOCH + 100.0


async def test_a_probe_that_a_full_limit_keeps_back_gives_its_slot_back() -> None:
    """The slot would otherwise stay taken until it expires, and its expiry opens the breaker again."""
    app = new_app()
    policy = BreakerPolicy(
        window_calls=4, minimum_calls=4, cool_down=30.0, probe_slots=3, successes_to_close=3
    )
    app.breaker("bank", policy)
    down = True
    moments: list[float] = []

    @app.task(breaker="bank", retry=ONCE, concurrency=1)
    async def pay() -> None:
        if down:
            raise ConnectionError
        moments.append(test.clock.time)
        test.clock.advance(25.0)

    async with bench(app) as test:
        await app.start_many(pay, [None] * 4)
        await test.drain()
        down = False
        await app.start_many(pay, [None] * 3)
        await settle(test, app)
        [state] = await parts_of(app).breakers.all()
        await check_ended(app, 7)
    assert moments == [30.0, 55.0, 80.0]
    assert state.state == "CLOSED"


async def test_every_change_of_its_state_is_emitted_also_changes_by_time() -> None:
    bank = new_bank()
    emitted = EventCollector(bank.app)
    async with bench(bank.app) as test:
        await open_it(bank, test)
        bank.down = False
        await bank.app.start_many(bank.pay, [None] * 2)
        await settle(test, bank.app)
    assert [(each.before, each.after) for each in emitted.of(BreakerChanged)] == [
        ("CLOSED", "OPEN"),
        ("OPEN", "HALF_OPEN"),
        ("HALF_OPEN", "CLOSED"),
    ]


async def test_a_suspect_that_is_held_stays_a_suspect_and_is_not_counted_as_executed() -> None:
    app = new_app()

    @app.task(breaker="mail")
    async def work(number: int) -> int:
        return number

    async with seamed(app) as (test, seam):
        run = await app.start(work, 1)
        await app.breakers().force("mail", "OPEN", reason="maintenance", seconds=100)
        await sql(app, "UPDATE runs SET place = 'alone', isolation = 1, losses = 2 WHERE id = ?1", run.id)
        await test.drain()
        assert await sql(app, "SELECT place, isolation FROM runs") == [("held", 1)]
        await app.breakers().force("mail", "CLOSED", reason="over")
        released: list[Any] = []

        async def look() -> None:
            released.extend(await sql(app, "SELECT place, isolation FROM runs"))

        seam.after("release", look)
        await test.advance(5.0)
        assert released == [("alone", 1)]
        assert await run.result() == 1
