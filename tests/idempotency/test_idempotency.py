"""Idempotency for any code: executed once for each key, even if its process dies (G6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from tests.engine.workbench import bench, new_app, seamed, sql
from tests.store.build import ask, value

from redrive import Category, FinalError, RateLimitedError, Rule
from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.errors import (
    InProgressError,
    InvalidValueError,
    KeyReusedError,
    LeaseLostError,
    NotStorableError,
    RecordedFailureError,
    RetryableError,
    StoreUnavailableError,
)
from redrive.idempotency.hold import Hold
from redrive.idempotency.service import SWEEP_INTERVAL
from redrive.model.idempotency import KeyState, KeyStatus
from redrive.parts import parts_of, rewire
from redrive.policy import Classifier, ErrorClass
from redrive.policy.classify import classify
from redrive.policy.codec import JsonLimits
from redrive.policy.idempotency_key import retry_after
from redrive.settings import Settings, new_encryption_key
from redrive.store.database import Database
from redrive.testing import EPOCH

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
REQUEST = {"order": 7, "amount": 12.5}
PATIENCE = 60.0


class Work:
    """A function that counts its calls, and ends when the test lets it."""

    def __init__(self, *outcomes: object) -> None:
        self.calls = 0
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.cancelled = False
        self._outcomes = list(outcomes)

    async def __call__(self) -> Any:
        self.calls += 1
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        outcome = self._outcomes.pop(0) if self._outcomes else {"call": self.calls}
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class World:
    def __init__(self, app: Redrive, database: Database) -> None:
        self.app = app
        self.database = database
        self.service = app.idempotent

    async def run(self, work: Callable[[], Any], request: object = REQUEST, **options: Any) -> Any:
        return await self.service.run("order-7", request, work.__call__, **options)  # type: ignore[operator]

    async def column(self, name: str) -> Any:
        return await value(self.database, f"SELECT {name} FROM redrive.idempotency_keys")

    async def rows(self) -> list[tuple[Any, ...]]:
        return await ask(self.database, "SELECT status, response, error FROM redrive.idempotency_keys")

    async def set(self, change: str) -> None:
        await ask(self.database, f"UPDATE redrive.idempotency_keys SET {change}")


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    app = new_app()
    rewire(app, database, SYSTEM_CLOCK, Random(7))
    async with asyncio.timeout(PATIENCE):
        yield World(app, database)
    await app.close()


# The same request, and another one


async def test_the_same_request_is_executed_once_and_answered_alike(world: World) -> None:
    work = Work({"id": 7, "tags": ("a", "b")})

    first = await world.run(work)
    again = await world.run(work, dict(reversed(REQUEST.items())))

    assert first == again == {"id": 7, "tags": ["a", "b"]}
    assert work.calls == 1


async def test_another_request_under_the_same_key_is_refused_and_not_executed(world: World) -> None:
    work, other = Work(), Work()
    await world.run(work)

    with pytest.raises(
        KeyReusedError, match=r"'order-7' was already used with a different request\. Use a new key"
    ):
        await world.run(other, {"order": 8})

    assert (work.calls, other.calls) == (1, 0)


async def test_another_request_is_rejected_also_while_the_first_one_executes(world: World) -> None:
    async with await _held(world):
        with pytest.raises(KeyReusedError):
            await world.run(Work(), {"order": 8}, wait=10.0)


@pytest.mark.parametrize("options", [{"user": "bob"}, {"domain": "mail"}])
async def test_keys_of_other_users_and_domains_are_other_keys_i8(
    world: World, options: dict[str, str]
) -> None:
    work = Work()
    assert await world.run(work, user="ana") == {"call": 1}
    assert await world.run(work, **{"user": "ana", **options}) == {"call": 2}


async def test_keys_of_other_organizations_are_other_keys_i8(world: World) -> None:
    work = Work()
    other = parts_of(world.app).idempotency("other")
    assert await world.run(work) == {"call": 1}
    assert await other.run("order-7", REQUEST, work.__call__) == {"call": 2}
    assert await world.run(work) == {"call": 1}


async def test_none_is_an_answer_too(world: World) -> None:
    calls: list[None] = []

    async def work() -> None:
        calls.append(None)

    assert await world.run(work) is None
    assert await world.run(work) is None
    assert len(calls) == 1


async def test_an_expired_key_is_free(world: World) -> None:
    work = Work()
    await world.run(work)
    await world.set("expires_at = 0")

    assert await world.run(work, {"order": 8}) == {"call": 2}


async def test_neither_the_request_nor_its_secrets_are_stored_i9(world: World) -> None:
    await world.run(Work(), {"card": SECRET})

    rows = await ask(world.database, "SELECT * FROM redrive.idempotency_keys")
    assert len(rows) == 1
    assert SECRET not in repr(rows)


# At once


async def test_a_hundred_duplicates_at_once_are_executed_once(world: World) -> None:
    work = Work()
    answers = await asyncio.gather(*(world.run(work, wait=PATIENCE) for _ in range(100)))

    assert work.calls == 1
    assert answers == [{"call": 1}] * 100


async def test_duplicates_that_do_not_wait_get_a_retry_hint(world: World) -> None:
    work = Work()
    work.go_on.clear()
    first = asyncio.create_task(world.run(work))
    await work.begun.wait()

    with pytest.raises(InProgressError, match="'order-7' has been in progress") as caught:
        await world.run(work)
    assert 1.0 <= caught.value.retry_after <= 60.0

    work.go_on.set()
    assert await first == await world.run(work) == {"call": 1}


async def test_waiting_ends_with_the_time_given_for_it(world: World) -> None:
    async with await _held(world):
        with pytest.raises(InProgressError):
            await world.run(Work(), wait=0.05)


async def test_a_waiting_caller_executes_the_request_when_the_first_one_gives_up(world: World) -> None:
    work = Work(RetryableError("the bank is away"))
    work.go_on.clear()
    first = asyncio.create_task(world.run(work))
    await work.begun.wait()
    second = asyncio.create_task(world.run(work, wait=PATIENCE))
    work.go_on.set()

    with pytest.raises(RetryableError):
        await first
    assert await second == {"call": 2}


def test_the_hint_grows_with_the_time_it_takes_and_ends_with_the_lease() -> None:
    def hint(age: float, left: float) -> float:
        return retry_after(KeyState(KeyStatus.PROCESSING, "", None, None, age, left, 100.0))

    assert [hint(0.1, 60.0), hint(7.0, 60.0), hint(500.0, 45.0), hint(500.0, 0.2)] == [1.0, 7.0, 45.0, 1.0]


def test_in_a_task_it_means_to_come_back_later() -> None:
    failure = classify(InProgressError("busy", retry_after=3.0))
    assert (failure.retryable, failure.retry_after) == (True, 3.0)


# Failures


@pytest.mark.parametrize(
    "error", [RetryableError("later"), RateLimitedError("later"), ConnectionError("cut")]
)
async def test_a_transient_failure_releases_the_key(world: World, error: Exception) -> None:
    work = Work(error)
    with pytest.raises(type(error)):
        await world.run(work)

    assert await world.rows() == []
    assert await world.run(work, {"order": 8}) == {"call": 2}


async def test_a_final_failure_is_recorded_without_its_secrets_i9(world: World) -> None:
    work = Work(FinalError(f"the card {SECRET} was declined"))
    with pytest.raises(FinalError, match="declined"):
        await world.run(work)

    with pytest.raises(RecordedFailureError, match="failed before with ") as caught:
        await world.run(work)

    assert work.calls == 1
    assert caught.value.error_type == "redrive.errors.FinalError"
    assert caught.value.error_message.endswith("was declined")
    [(status, response, error)] = await world.rows()
    assert (status, response) == ("failed", None)
    assert SECRET not in error + str(caught.value)


async def test_the_classifier_decides_which_errors_are_final(world: World) -> None:
    lenient = Classifier([Rule.for_type(ValueError, Category.UNKNOWN, ErrorClass.RETRYABLE)])
    work = Work(ValueError("odd"), ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        await world.run(work, classifier=lenient)
    with pytest.raises(ValueError, match="odd"):
        await world.run(work)
    with pytest.raises(RecordedFailureError):
        await world.run(work, classifier=lenient)
    assert work.calls == 2


async def test_a_recorded_failure_is_final_for_others_and_expires(world: World) -> None:
    work = Work(FinalError("no"))
    with pytest.raises(FinalError):
        await world.run(work)
    with pytest.raises(RecordedFailureError) as caught:
        await world.run(work)
    assert not classify(caught.value).retryable

    await world.set("expires_at = 0")
    assert await world.run(work) == {"call": 2}


async def test_cancellation_releases_the_key(world: World) -> None:
    work = Work()
    work.go_on.clear()
    first = asyncio.create_task(world.run(work))
    await work.begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert await world.rows() == []
    work.go_on.set()
    assert await world.run(work) == {"call": 2}


@pytest.mark.parametrize("outcome", [object(), {"x": float("nan")}, "x" * 2_000_000])
async def test_a_result_that_cannot_be_stored_is_refused_and_the_key_released(
    world: World, outcome: object
) -> None:
    work = Work(outcome)
    with pytest.raises(NotStorableError):
        await world.run(work)

    assert await world.rows() == []
    assert await world.run(work) == {"call": 2}


async def test_the_size_of_a_result_is_that_of_the_application(database: Database) -> None:
    app = new_app(limits=JsonLimits(size=1_024))
    rewire(app, database, SYSTEM_CLOCK, Random(7))
    with pytest.raises(NotStorableError, match="1,024"):
        await World(app, database).run(Work("x" * 1_100))


# Crashes, and lost leases


async def test_a_key_left_behind_by_a_crash_is_taken_up_by_the_same_request(world: World) -> None:
    left = await world.service.take("order-7", REQUEST)
    assert isinstance(left, Hold)  # its holder has vanished
    await world.set("lease_expires_at = 0")

    with pytest.raises(KeyReusedError):
        await world.run(Work(), {"order": 8})
    assert await world.run(Work()) == {"call": 1}


async def test_the_completion_of_a_lost_key_does_not_count_i4(world: World) -> None:
    work, other = Work("mine"), Work("theirs")
    work.go_on.clear()
    first = asyncio.create_task(world.run(work))
    await work.begun.wait()
    await world.set("lease_expires_at = 0")
    assert await world.run(other) == "theirs"
    work.go_on.set()

    with pytest.raises(LeaseLostError, match="another caller may hold the key"):
        await first
    assert await world.run(work) == "theirs"


async def test_the_failure_of_a_lost_key_does_not_count_i4(world: World) -> None:
    work = Work(FinalError("no"))
    work.go_on.clear()
    first = asyncio.create_task(world.run(work))
    await work.begun.wait()
    await world.set("lease_expires_at = 0")
    assert await world.run(Work("theirs")) == "theirs"
    work.go_on.set()

    with pytest.raises(FinalError):
        await first
    assert await world.run(work) == "theirs"


async def test_a_lease_is_renewed_while_the_function_runs(world: World) -> None:
    before: float = 0.0

    async def work() -> str:
        nonlocal before
        before = await world.column("lease_expires_at")
        while await world.column("lease_expires_at") <= before:
            await asyncio.sleep(0.02)
        return "renewed"

    assert await world.run(work, lease_seconds=1.0) == "renewed"


async def test_a_holder_that_cannot_renew_is_stopped(world: World) -> None:
    work = Work()
    work.go_on.clear()
    first = asyncio.create_task(world.run(work, lease_seconds=1.0))
    await work.begun.wait()
    await world.set("token = token + 1, lease_expires_at = 0")

    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(first, PATIENCE / 3)
    assert work.cancelled
    assert await world.run(Work("theirs")) == "theirs"


async def test_a_holder_learns_with_the_next_renewal_that_another_caller_has_its_key() -> None:
    """Long before its own lease would expire."""
    app = new_app()
    async with bench(app) as test:
        hold = await app.idempotent.take("k", None, lease_seconds=60.0)
        assert isinstance(hold, Hold)
        with pytest.raises(LeaseLostError):
            async with hold:
                await sql(app, "UPDATE idempotency_keys SET token = token + 1")
                test.clock.advance(20.1)
                await parts_of(app).held_keys.lease_renewer.renew(parts_of(app).database)
                await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)


async def test_a_lease_is_renewed_although_the_event_loop_is_blocked(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    app = new_app(f"sqlite:///{path}")

    async def work() -> str:
        look = "SELECT lease_expires_at FROM idempotency_keys"
        connection = apsw.Connection(str(path))
        [[before]] = connection.execute(look)
        for _ in range(500):
            if connection.execute(look).fetchall() != [(before,)]:
                return "renewed"
            SYSTEM_CLOCK.pause(0.02)
        return "never renewed"

    async with app, asyncio.timeout(PATIENCE):
        assert await app.idempotent.run("k", None, work, lease_seconds=1.0) == "renewed"


async def test_the_renewer_renews_leases_older_than_a_third_of_their_time_by_the_given_clock() -> None:
    app = new_app()
    async with bench(app) as test:
        lease_renewer = parts_of(app).held_keys.lease_renewer
        hold = await app.idempotent.take("k", None, lease_seconds=60.0)
        assert isinstance(hold, Hold)
        async with hold:
            for seconds, expected in ((19.9, 60.0), (0.2, 80.1), (19.0, 80.1), (1.1, 100.2)):
                test.clock.advance(seconds)
                await lease_renewer.renew(parts_of(app).database)
                lease = await value(
                    parts_of(app).database, "SELECT lease_expires_at FROM redrive.idempotency_keys"
                )
                assert lease - EPOCH == pytest.approx(expected)
            await hold.complete("done")
        test.clock.advance(30.0)
        await lease_renewer.renew(parts_of(app).database)
        assert not hold.lost


async def test_a_holder_without_the_database_for_a_whole_lease_gives_the_key_up() -> None:
    async with seamed(new_app()) as (test, seam):
        app = test._app
        lease_renewer = parts_of(app).held_keys.lease_renewer
        hold = await app.idempotent.take("k", None, lease_seconds=60.0)
        assert isinstance(hold, Hold)
        with pytest.raises(LeaseLostError):
            async with hold:
                seam.fail("renew_if_held", times=2)
                test.clock.advance(58.9)
                await lease_renewer.renew(parts_of(app).database)
                await asyncio.sleep(0)
                assert not hold.lost
                test.clock.advance(1.0)
                await lease_renewer.renew(parts_of(app).database)
                await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)


# The database


async def test_an_answer_of_the_database_that_is_lost_changes_nothing() -> None:
    async with seamed(new_app()) as (test, seam):
        service, work = test._app.idempotent, Work()
        seam.fail("acquire", after=True)
        seam.fail("complete_if_held", after=True)
        assert await service.run("k", None, work.__call__) == {"call": 1}
        assert await service.run("k", None, work.__call__) == {"call": 1}
        assert seam.triggered == ["acquire", "complete_if_held"]


async def test_a_result_that_cannot_be_written_raises_and_keeps_its_key() -> None:
    async with seamed(new_app()) as (test, seam):
        service, work = test._app.idempotent, Work()
        seam.fail("complete_if_held", times=4)
        with pytest.raises(StoreUnavailableError):
            await service.run("k", None, work.__call__)
        with pytest.raises(InProgressError):
            await service.run("k", None, work.__call__)
        test.clock.advance(61.0)
        assert await service.run("k", None, work.__call__) == {"call": 2}


async def test_a_key_that_may_have_been_taken_without_an_answer_is_released() -> None:
    async with seamed(new_app()) as (test, seam):
        service, work = test._app.idempotent, Work()
        seam.fail("acquire", after=True, times=4)
        with pytest.raises(StoreUnavailableError):
            await service.run("k", None, work.__call__)
        assert await service.run("k", None, work.__call__) == {"call": 1}


async def test_stored_values_are_encrypted_if_there_is_a_key_m11_i9(database: Database) -> None:
    app = Redrive("sqlite://:memory:", settings=Settings(encryption_keys=(new_encryption_key(),)), log=False)
    rewire(app, database, SYSTEM_CLOCK, Random(7))
    world = World(app, database)
    canary = "canary-of-the-answer"

    assert await world.run(Work({"token": canary})) == {"token": canary}
    with pytest.raises(FinalError):
        await world.service.run("other", None, Work(FinalError("canary-of-the-error")).__call__)

    rows = await world.rows()
    assert len(rows) == 2
    assert "canary" not in repr(rows)
    assert repr(rows).count("$sealed") == 2
    assert await world.run(Work()) == {"token": canary}
    with pytest.raises(RecordedFailureError, match="canary-of-the-error"):
        await world.service.run("other", None, Work().__call__)


async def test_stored_values_are_encrypted_again_with_a_new_key_m11(database: Database) -> None:
    old, new = new_encryption_key(), new_encryption_key()

    def world_with(*keys: str) -> World:
        app = Redrive("sqlite://:memory:", settings=Settings(encryption_keys=keys), log=False)
        rewire(app, database, SYSTEM_CLOCK, Random(7))
        return World(app, database)

    before = world_with(old)
    await before.run(Work("kept"))
    with pytest.raises(FinalError):
        await before.service.run("other", None, Work(FinalError("declined")).__call__)

    rotated = await world_with(new, old).app.members().rotate_encryption_keys()

    assert (rotated.rewritten, rotated.unreadable) == (2, {})
    after = world_with(new)
    assert await after.run(Work()) == "kept"
    with pytest.raises(RecordedFailureError, match="declined"):
        await after.service.run("other", None, Work().__call__)


# Cleanup


async def test_workers_remove_expired_keys(world: World) -> None:
    await world.run(Work())
    upkeep = parts_of(world.app).worker_in_test().maintenance
    assert await upkeep.remove_expired() is False
    assert len(await world.rows()) == 1

    await world.set("expires_at = 0")
    await upkeep.remove_expired()
    assert await world.rows() == []


async def test_durations_can_be_timedeltas() -> None:
    app = new_app()
    work = Work("first", "second")

    @app.idempotent(key=str, ttl=timedelta(minutes=1))
    async def pay(order: int) -> Any:
        return await work()

    async with bench(app) as test:
        assert [await pay(7), await pay(7)] == ["first", "first"]
        test.clock.advance(timedelta(minutes=1, seconds=1))
        assert await pay(7) == "second"
        hold = await app.idempotent.take("k", None, lease_seconds=timedelta(minutes=5))
        assert isinstance(hold, Hold)
        before = test.clock.time
        with pytest.raises(InProgressError):
            await app.idempotent.take("k", None, wait=timedelta(seconds=30))
        assert test.clock.time == before + 30.0


async def test_without_workers_expired_keys_go_too() -> None:
    app = new_app()
    async with bench(app) as test:
        await app.idempotent.run("old", None, Work().__call__, ttl=10.0)
        test.clock.advance(11.0)
        for number in range(SWEEP_INTERVAL):
            await app.idempotent.run(f"new-{number}", None, Work().__call__)
        count = "SELECT count(*) FROM redrive.idempotency_keys WHERE key = 'old'"
        assert await value(parts_of(app).database, count) == 0


# Sync functions


async def test_a_sync_function_runs_in_a_thread(world: World) -> None:
    threads: list[str] = []

    def work() -> int:
        threads.append(threading.current_thread().name)
        return 7

    assert await world.run(work) == await world.run(work) == 7
    assert len(threads) == 1
    assert threads[0] != threading.current_thread().name


async def test_a_function_that_only_makes_a_coroutine_is_awaited(world: World) -> None:
    work = Work()
    assert await world.service.run("order-7", REQUEST, lambda: work()) == {"call": 1}


async def test_a_thread_keeps_its_key_when_no_caller_waits_for_it(world: World) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go_on.wait(PATIENCE)
        return "done nevertheless"

    first = asyncio.create_task(world.run(work))
    await asyncio.to_thread(begun.wait, PATIENCE)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(InProgressError):
        await world.run(Work())

    go_on.set()
    assert await world.run(Work(), wait=PATIENCE) == "done nevertheless"


def test_sync_programs_use_it_too(tmp_path: Path) -> None:
    app = new_app(f"sqlite:///{tmp_path}/keys.db")
    try:
        service, threads = app.sync.idempotent, []

        def work() -> str:
            threads.append(threading.current_thread().name)
            return "done"

        assert service.run("k", [1], work) == service.run("k", [1], work) == "done"
        assert len(threads) == 1
    finally:
        app.sync.close()


# The decorator


@dataclass(frozen=True)
class Receipt:
    order: int
    amount: float


async def test_a_decorated_function_is_executed_once_for_each_key(world: World) -> None:
    calls: list[int] = []

    @world.app.idempotent(key=lambda order, amount=0.0: f"order-{order}")
    async def charge(order: int, amount: float = 0.0) -> Receipt:
        calls.append(order)
        return Receipt(order, amount)

    assert await charge(7, 12.5) == await charge(7, amount=12.5) == Receipt(7, 12.5)
    assert await charge(8) == Receipt(8, 0.0)
    with pytest.raises(KeyReusedError):
        await charge(7, 13.0)
    assert calls == [7, 8]
    assert charge.__name__ == "charge"
    assert {row[0] for row in await ask(world.database, "SELECT domain FROM redrive.idempotency_keys")} == {
        "charge"
    }


def test_a_decorated_sync_function_stays_sync(tmp_path: Path) -> None:
    app = new_app(f"sqlite:///{tmp_path}/keys.db")
    calls: list[int] = []

    @app.idempotent(key=str, ttl=60.0)
    def charge(order: int) -> Receipt:
        calls.append(order)
        return Receipt(order, 1.0)

    try:
        assert charge(7) == charge(7) == Receipt(7, 1.0)
        assert calls == [7]
    finally:
        app.sync.close()


def test_the_decorator_rejects_unknown_options() -> None:
    app = new_app()
    with pytest.raises(InvalidValueError, match="no option 'tttl'"):
        app.idempotent(key=str, tttl=60.0)  # type: ignore[call-arg]
    with pytest.raises(InvalidValueError, match="key must be a function"):
        app.idempotent(key="order")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="org"):
        app.idempotent(key=str, org="")


# Wrong arguments


@pytest.mark.parametrize(
    ("key", "options", "message"),
    [
        ("", {}, "1 to 255 printable characters"),
        ("x" * 256, {}, "1 to 255 printable characters"),
        ("a\nb", {}, "1 to 255 printable characters"),
        ("\ud800", {}, "1 to 255 printable characters"),
        (7, {}, "1 to 255 printable characters"),
        ("k", {"ttl": 0.0}, "ttl must be a number of seconds from 1 to"),
        ("k", {"ttl": float("nan")}, "ttl must be a number"),
        ("k", {"ttl": timedelta(0)}, "ttl must be a number of seconds from 1 to 31,536,000, got 0.0"),
        ("k", {"lease_seconds": 0.5}, "lease_seconds must be a number of seconds from 1 to 3600"),
        (
            "k",
            {"lease_seconds": timedelta(hours=2)},
            "lease_seconds must be a number of seconds from 1 to 3600, got 7200.0",
        ),
        ("k", {"wait": -1.0}, "wait must be a number of seconds from 0"),
        (
            "k",
            {"wait": timedelta(seconds=-1)},
            "wait must be a number of seconds from 0 to 31,536,000, got -1.0",
        ),
        ("k", {"domain": "a\0b"}, "domain must be a string"),
        ("k", {"user": None}, "user must be a string"),
        ("k", {"classifier": "strict"}, "classifier must be of type Classifier"),
    ],
)
async def test_wrong_arguments_are_refused_before_anything_happens(
    key: Any, options: dict[str, Any], message: str
) -> None:
    work = Work()
    async with bench(new_app()) as test:
        with pytest.raises(InvalidValueError, match=message):
            await test._app.idempotent.run(key, None, work.__call__, **options)
    assert work.calls == 0


async def test_a_request_that_has_no_json_form_is_refused() -> None:
    async with bench(new_app()) as test:
        service = test._app.idempotent
        with pytest.raises(NotStorableError):
            await service.run("k", object(), Work().__call__)
        with pytest.raises(InvalidValueError, match="callable"):
            await service.run("k", None, 7)  # type: ignore[arg-type]


async def _held(world: World) -> Hold:
    hold = await world.service.take("order-7", REQUEST)
    assert isinstance(hold, Hold)
    return hold
