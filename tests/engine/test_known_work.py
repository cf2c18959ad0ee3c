"""Workers claim only known work; work that no worker knows is held and shown; tasks have aliases."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.engine.hand_clock import HandClock
from tests.engine.workbench import EventCollector, app_at, new_app, sql, working

from redrive.app import Redrive
from redrive.engine.definition import Definition
from redrive.engine.handle import RunHandle
from redrive.engine.known_work import KnownWork
from redrive.errors import InvalidValueError
from redrive.model.event import HeldReleased
from redrive.parts import parts_of
from redrive.testing import in_memory


async def until_held(run: RunHandle[Any], holder: str) -> None:
    async with asyncio.timeout(30.0):
        while (await run.view()).held_by != holder:
            await asyncio.sleep(0.01)


def program(place: Path, *names: str) -> Redrive:
    """A program with tasks that return their names."""
    app = app_at(place / "work.db")
    for name in names:
        add(app, name)
    return app


def add(app: Redrive, name: str, **options: Any) -> None:
    @app.task(name=name, **options)
    async def work() -> str:
        return name


async def test_5_an_old_worker_leaves_new_tasks_to_the_worker_that_knows_them(tmp_path: Path) -> None:
    monday, tuesday = program(tmp_path, "price"), program(tmp_path, "price", "ship")
    async with working(tuesday, queues=("default",)) as after, working(monday):
        runs = [await tuesday.start("ship") for _ in range(20)]
        assert [await run.result(30) for run in runs] == ["ship"] * 20
        for run in runs:
            [attempt] = (await run.history()).attempts
            assert (attempt.number, attempt.worker) == (1, after.id)


async def test_5_work_that_no_worker_knows_is_held_until_one_does(tmp_path: Path) -> None:
    monday, tuesday = program(tmp_path, "price"), program(tmp_path, "price", "ship")
    await tuesday.open()
    run = await tuesday.start("ship")
    async with working(monday):
        await until_held(run, "task:ship")
        history = await run.history()
        assert history.attempts == []
        assert [event.what for event in history.events] == ["queued"]
        async with working(program(tmp_path, "ship")):
            assert await run.result(30) == "ship"
    [attempt] = (await run.history()).attempts
    assert attempt.number == 1
    await tuesday.close()


async def test_a_workflow_of_which_no_worker_has_a_task_is_held_by_its_name(tmp_path: Path) -> None:
    monday, tuesday = program(tmp_path, "price"), program(tmp_path, "pack", "ship")
    tuesday.workflow("order", list(parts_of(tuesday).registry.tasks.values()))
    await tuesday.open()
    run = await tuesday.start("order")
    async with working(monday):
        await until_held(run, "workflow:order")
    await tuesday.close()


async def test_a_held_workflow_is_released_by_a_worker_that_has_its_tasks_but_does_not_register_it(
    tmp_path: Path,
) -> None:
    web = program(tmp_path, "pack", "ship")
    web.workflow("order", list(parts_of(web).registry.tasks.values()))
    await web.open()
    run = await web.start("order")
    async with working(program(tmp_path, "price")):
        await until_held(run, "workflow:order")
        async with working(program(tmp_path, "pack", "ship")):
            assert await run.result(30) == "ship"
    await web.close()


async def test_a_worker_that_is_limited_to_workflows_releases_their_held_runs(tmp_path: Path) -> None:
    web, limited = program(tmp_path, "ship"), program(tmp_path, "ship")
    web.workflow("order", [parts_of(web).registry.tasks["ship"]])
    emitted = EventCollector(limited)
    await web.open()
    other, run = await web.start("ship"), await web.start("order")
    async with working(program(tmp_path, "price")):
        await until_held(other, "task:ship")
        await until_held(run, "task:ship")
        async with working(limited, workflows=("order",)):
            assert await run.result(30) == "ship"
        assert (await other.view()).held_by == "task:ship"
    assert emitted.of(HeldReleased) == [HeldReleased("task:ship", 1)]
    await web.close()


async def test_a_worker_releases_nothing_in_the_queues_of_others(tmp_path: Path) -> None:
    """It would not claim the run, and a worker of that queue would hold it again."""
    web, elsewhere = program(tmp_path, "ship"), app_at(tmp_path / "work.db")
    add(elsewhere, "ship", queue="express")
    await web.open()
    run = await web.start("ship")
    async with working(program(tmp_path, "price")):
        await until_held(run, "task:ship")
    async with working(elsewhere, queues=("express",)) as worker:
        await worker.maintenance.promote()
        assert (await run.view()).held_by == "task:ship"
    async with working(program(tmp_path, "ship")):
        assert await run.result(30) == "ship"
    await web.close()


async def test_a_worker_executes_a_workflow_that_only_other_programs_register(tmp_path: Path) -> None:
    web, worker = program(tmp_path, "pack", "ship"), program(tmp_path, "pack", "ship")
    tasks = parts_of(web).registry.tasks
    web.workflow("order", [tasks["pack"].step(), tasks["ship"].step()])
    await web.open()
    run = await web.start("order")
    async with working(worker):
        assert await run.result(30) == "ship"
    await web.close()


async def test_a_worker_that_stopped_a_moment_ago_may_come_back(tmp_path: Path) -> None:
    """A restart moves no work and raises no alarm."""
    monday, tuesday = program(tmp_path, "price"), program(tmp_path, "ship", "zip")
    await tuesday.open()
    async with working(program(tmp_path, "ship")):
        await until_workers(tuesday, 1)
    async with working(monday):
        await until_workers(tuesday, 2)
        run = await tuesday.start("ship")
        await until_held(await tuesday.start("zip"), "task:zip")
        assert (await run.view()).place == "ready"
        await sql(tuesday, "UPDATE workers SET seen_at = seen_at - 3600 WHERE state = 'stopped'")
        await until_held(run, "task:ship")
    await tuesday.close()


async def until_workers(app: Redrive, number: int) -> None:
    async with asyncio.timeout(30.0):
        while len(await parts_of(app).store.limits.workers()) < number:
            await asyncio.sleep(0.01)


async def test_a_worker_of_the_previous_version_counts_as_knowing_everything(tmp_path: Path) -> None:
    monday, tuesday = program(tmp_path, "price"), program(tmp_path, "ship")
    await tuesday.open()
    await parts_of(tuesday).store.limits.heartbeat("old", "v0", '["default"]', 4, 0, "running")
    run = await tuesday.start("ship")
    async with working(monday, workflows=("price",)):
        await until_workers(tuesday, 2)
        for _ in range(3):
            assert await (await monday.start("price")).result(30) == "price"
            assert (await run.view()).place == "ready"
        await sql(tuesday, "DELETE FROM workers WHERE id = 'old'")
        await until_held(run, "task:ship")
    await tuesday.close()


def test_known_work_is_found_out_again_only_after_a_change() -> None:
    app, clock = new_app(), HandClock()
    registry = parts_of(app).registry
    add(app, "price")
    known = KnownWork(registry, clock, None)
    assert known.to_claim is known.workflows is known.workflows
    assert list(known.workflows) == ["price"]
    order = Definition("order", (registry.tasks["price"].step(),))
    assert known.learn([order])
    assert sorted(known.workflows) == ["order", "price"]
    add(app, "ship", aliases=["send"])
    assert sorted(known.workflows) == ["order", "price", "send", "ship"]
    known.abstain("order", "pack")
    assert sorted(known.to_claim) == ["price", "send", "ship"]
    clock.time += 1.0
    assert sorted(known.to_claim) == ["order", "price", "send", "ship"]


# Aliases


async def test_5_runs_of_a_former_name_are_executed(tmp_path: Path) -> None:
    before = program(tmp_path, "ship")
    await before.open()
    run = await before.start("ship")
    await before.close()

    after = app_at(tmp_path / "work.db")
    add(after, "dispatch", aliases=["ship"])
    async with working(after):
        assert await after.run(run.id).result(30) == "dispatch"


async def test_workflows_and_their_steps_are_executed_under_former_names(tmp_path: Path) -> None:
    before = program(tmp_path, "price", "ship")
    before.workflow("order", list(parts_of(before).registry.tasks.values()))
    await before.open()
    run = await before.start("order")
    await before.close()

    after = program(tmp_path, "price")
    add(after, "dispatch", aliases=["ship"])
    after.workflow("purchase", list(parts_of(after).registry.tasks.values()), aliases=["order"])
    async with working(after):
        assert await after.run(run.id).result(30) == "dispatch"
        assert [step.name for step in (await after.run(run.id).history()).steps] == ["price", "ship"]


async def test_a_run_that_is_started_by_an_alias_has_the_name_of_today() -> None:
    app = new_app()
    add(app, "dispatch", aliases=["ship"])
    async with in_memory(app):
        run = await app.start("ship")
        assert (await run.view()).workflow == "dispatch"
        assert await run.result() == "dispatch"


@pytest.mark.parametrize(
    ("name", "aliases", "message"),
    [
        ("send", ["ship"], "the alias 'ship' already exists"),
        ("ship", [], "the alias 'ship' already exists"),
        ("send", ["dispatch"], "the task 'dispatch' already exists"),
        ("send", ["send"], "has its own name as an alias"),
        ("send", ["a", "a"], "aliases must be different names"),
        ("send", "ship", "aliases must be a list of names"),
        ("send", ["?"], "an alias must start with a letter"),
    ],
)
def test_names_and_aliases_are_distinct(name: str, aliases: Any, message: str) -> None:
    app = new_app()
    add(app, "dispatch", aliases=["ship"])
    with pytest.raises(InvalidValueError, match=message):
        add(app, name, aliases=aliases)
