"""An operator intervenes: pauses and resumes queues, and cancels runs in any place."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.journeys.apps import file_exists, mail_and_shop, quick
from tests.journeys.journal import note
from tests.journeys.world import PATIENCE, World, until

from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.engine.handle import RunHandle
from redrive.errors import RunFailedError
from redrive.model.fact import fact


async def test_a_queue_is_paused_and_resumed(world: World) -> None:
    app = world.app(mail_and_shop)
    async with world.working(app):
        await app.queues(by="ada").pause("mail", reason="the relay is moved")
        paused = await app.queues().view("mail")
        assert (paused.name, paused.paused_by, paused.reason) == ("mail", "ada", "the relay is moved")
        mails = [await app.start("send", number) for number in range(3)]
        order = await app.start("order", 7)
        await until(lambda: world.journal.count("priced") == 1)
        assert await (await app.start("price", 1)).result(PATIENCE) == 100
        assert {(await each.view()).attempt for each in mails} == {0}
        assert world.journal.count("sent") == 0

        await app.queues(by="ada").resume("mail")
        assert [await each.result(PATIENCE) for each in mails] == ["sent 0", "sent 1", "sent 2"]
        assert await order.result(PATIENCE) == "sent 700"
    assert (await app.queues().view("mail")).paused_at is None


async def test_work_in_flight_finishes_although_its_queue_is_paused(world: World) -> None:
    app = world.app()
    sign = world.folder / "go on"

    @app.task
    async def wait(number: int) -> int:
        note("begun")
        await file_exists(str(sign))
        return number

    async with world.working(app, concurrency=1):
        begun = await app.start(wait, 1)
        await until(lambda: world.journal.count("begun") == 1)
        later = await app.start(wait, 2)
        await app.queues().pause("default")
        sign.touch()
        assert await begun.result(PATIENCE) == 1
        assert (await later.view()).attempt == 0


def cancellable(app: Redrive) -> None:
    @app.task
    async def wait(number: int) -> None:
        note("begun")
        try:
            await asyncio.sleep(600)
        finally:
            note("tidied")

    @app.task
    def wait_in_thread(number: int, context: Context) -> None:
        note("begun")
        try:
            while True:
                context.check()
                time.sleep(0.01)
        finally:
            note("tidied")

    @app.task(retry=quick(max_attempts=3, base=60.0))
    async def fail(number: int) -> None:
        note("begun")
        raise ConnectionError

    @app.task(breaker="gateway")
    async def ship(number: int) -> None:
        note("begun")


async def assert_cancelled(run: RunHandle[Any]) -> None:
    assert await run.wait(PATIENCE) == "CANCELLED"
    history = await run.history()
    assert [step.state for step in history.steps] == ["CANCELLED"]
    assert history.events[-1].what == "finished"
    assert history.events[-1].detail == fact("run_ended", state="CANCELLED")
    assert await run.dead_letter() is None
    assert await run.cancel() == "ended"
    with pytest.raises(RunFailedError, match="cancelled"):
        await run.result(PATIENCE)


async def test_a_run_is_cancelled_while_it_waits_for_its_time(world: World) -> None:
    app = world.app(cancellable)
    async with world.working(app):
        run = await app.start("wait", 0, delay=600)
        assert await run.cancel() == "cancelled"
        await assert_cancelled(run)
    assert world.journal.of() == []


async def test_a_run_is_cancelled_while_it_waits_for_its_retry(world: World) -> None:
    app = world.app(cancellable)
    async with world.working(app):
        run = await app.start("fail", 0)
        await until(lambda: is_at(run, "waiting"))
        assert await run.cancel() == "cancelled"
        await assert_cancelled(run)
    assert world.journal.count("begun") == 1


async def test_a_run_is_cancelled_while_it_is_held(world: World) -> None:
    app = world.app(cancellable)
    async with world.working(app):
        await app.breakers().force("gateway", "OPEN", reason="maintenance")
        run = await app.start("ship", 0)
        await until(lambda: is_at(run, "held"))
        assert await run.cancel() == "cancelled"
        await app.breakers().release("gateway")
        await assert_cancelled(run)
    assert world.journal.of() == []


async def is_at(run: RunHandle[Any], place: str) -> bool:
    return (await run.view()).place == place


@pytest.mark.parametrize("task", ["wait", "wait_in_thread"])
async def test_a_run_is_cancelled_while_it_is_executed(world: World, task: str) -> None:
    app = world.app(cancellable)
    async with world.working(app):
        run = await app.start(task, 0)
        await until(lambda: world.journal.count("begun") == 1)
        assert await run.cancel() == "requested"
        await assert_cancelled(run)
        await until(lambda: world.journal.count("tidied") == 1)
    assert [each.outcome for each in (await run.history()).attempts] == ["cancelled"]


@pytest.mark.parametrize("error", [ConnectionError, None], ids=["it fails", "the next step is at hand"])
async def test_a_run_that_is_being_cancelled_is_not_executed_any_further(
    world: World, error: type[Exception] | None
) -> None:
    """The worker learns of the cancellation only after the attempt has ended."""
    app = world.app()
    sign = world.folder / "go on"

    @app.task(retry=quick(max_attempts=9))
    async def first(number: int) -> None:
        note("executed")
        await file_exists(str(sign))
        if error is not None:
            raise error

    @app.task(queue="other")
    async def second(number: int) -> None:
        note("executed")

    app.workflow("both", [first, second])
    async with world.working(app, poll_seconds=2.0):
        run = await app.start("both", 0)
        await until(lambda: world.journal.count("executed") == 1)
        assert await run.cancel() == "requested"
        sign.touch()
        assert await run.wait(PATIENCE) == "CANCELLED"
    assert world.journal.count("executed") == 1
