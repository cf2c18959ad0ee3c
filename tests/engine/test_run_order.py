"""Order keys, as an application uses them."""

from __future__ import annotations

import pytest
from tests.engine.workbench import bench, check_ended, new_app

from redrive import FinalError
from redrive.errors import InvalidValueError
from redrive.failures.service import Failures


async def test_runs_of_a_key_are_executed_in_the_order_of_their_starts() -> None:
    app = new_app()
    calls: list[int] = []

    @app.task
    async def work(number: int) -> None:
        calls.append(number)

    async with bench(app) as test:
        for number in (1, 2):
            await app.start(work, number, order_key="a", priority=number)
        await app.start_many(work, [3, 4, 5], order_key="a")
        await test.drain()
        await check_ended(app, 5)
    assert calls == [1, 2, 3, 4, 5]


async def test_a_parked_run_says_what_it_waits_for() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app):
        first, second, third = [await app.start(work, order_key="customer-7") for _ in range(3)]
        head, last = await first.view(), await third.view()
        other = await (await app.start(work)).view()
    assert head.order is not None
    assert last.order is not None
    assert (head.order.key, head.order.waits_for, head.order.behind.number) == ("customer-7", None, 2)
    assert (last.order.waits_for, last.order.before.number, last.order.behind.number) == (first.id, 2, 0)
    assert (last.state, last.place, last.held_by, last.status) == (
        "PENDING",
        "waiting",
        "order:customer-7",
        "waiting",
    )
    assert other.order is None
    assert second.id != first.id


async def test_a_delayed_run_keeps_its_time() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await app.start(work, order_key="a")
        later = await app.start(work, order_key="a", delay=60)
        last = await app.start(work, order_key="a")
        await test.drain()
        assert (await later.view()).place == "waiting"
        assert (await last.view()).order.waits_for == later.id  # type: ignore[union-attr]
        await test.advance(60)
        await check_ended(app, 3)


@pytest.mark.parametrize("options", [{"order_key": ""}, {"order_key": "x" * 256}, {"order_key": "a\n"}])
async def test_a_key_has_printable_characters(options: dict[str, str]) -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app):
        with pytest.raises(InvalidValueError, match="order_key must be a string of 1 to 255 printable"):
            await app.start("work", **options)  # type: ignore[call-overload]


async def test_what_follows_a_failure_is_checked() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app):
        with pytest.raises(InvalidValueError, match="after_failure must be 'wait' or 'proceed', got 'stop'"):
            await app.start("work", order_key="a", after_failure="stop")  # type: ignore[call-overload]
        with pytest.raises(InvalidValueError, match="after_failure is for runs with an order key"):
            await app.start(work, after_failure="proceed")


@pytest.mark.parametrize("way", ["one", "several", "query", "group", "replayed", "bulk", "run"])
async def test_every_way_to_close_a_dead_letter_releases_the_next(way: str) -> None:
    app = new_app()
    calls: list[int] = []
    fails = [True]

    @app.task
    async def work(number: int) -> None:
        calls.append(number)
        if number == 1 and fails:
            raise FinalError("no")

    async with bench(app) as test:
        first, second = await app.start_many(work, [1, 2], order_key="a")
        await test.drain()
        assert calls == [1]
        [letter] = (await app.failures().list()).lines
        assert (await second.view()).order.waits_for == first.id  # type: ignore[union-attr]
        fails.clear()
        await _close(app.failures(), way, letter.id, letter.fingerprint, first.id)
        await test.drain()
        assert calls == ([1, 1, 2] if way in ("replayed", "bulk", "run") else [1, 2])


async def _close(failures: Failures, way: str, letter_id: str, fingerprint: str, run_id: str) -> None:
    if way == "one":
        await failures.ignore(letter_id)
    elif way == "several":
        await failures.archive([letter_id])
    elif way == "query":
        await failures.resolve_matching("is:open", expect=1)
    elif way == "group":
        await failures.groups.resolve(fingerprint, "fixed", letters=True)
    elif way == "replayed":
        await failures.replay(letter_id)
    elif way == "bulk":
        plan = await failures.plans.create(query="is:open")
        await failures.plans.start(plan.operation_id)
    else:
        await failures.replay_run(run_id)


async def test_successors_may_proceed_after_a_dead_letter() -> None:
    app = new_app()
    calls: list[int] = []

    @app.task
    async def work(number: int) -> None:
        calls.append(number)
        if number == 1:
            raise FinalError("no")

    async with bench(app) as test:
        await app.start_many(work, [1, 2], order_key="a", after_failure="proceed")
        await test.drain()
    assert calls == [1, 2]
