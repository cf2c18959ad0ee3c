"""A deploy changes the workflow: runs that started before finish as they were started."""

from __future__ import annotations

from tests.journeys.apps import order_of_monday, order_of_tuesday
from tests.journeys.world import PATIENCE, World, until


async def test_a_deploy_changes_the_workflow(world: World) -> None:
    monday, tuesday = world.app(order_of_monday), world.app(order_of_tuesday)
    old = await monday.start("order", 1)
    new = await tuesday.start("order", 2)

    after = await world.worker(order_of_tuesday, version="tuesday")
    assert await new.result(PATIENCE) == "order 2, shipped"
    await until(lambda: after.events("task.unknown"))

    waiting = await old.history()
    assert [step.name for step in waiting.steps] == ["price", "pack", "ship"]
    assert [step.state for step in waiting.steps][::2] == ["SUCCESS", "PENDING"]
    assert waiting.run.state == "RUNNING"
    assert await old.dead_letter() is None
    [unknown, *_] = after.events("task.unknown")
    assert (unknown["run_id"], unknown["task"]) == (old.id, "pack")
    assert "task.unknown" in after.log

    before = await world.worker(order_of_monday, version="monday")
    assert await old.result(PATIENCE) == "order 1, shipped"

    assert {each["order"]: each["tax"] for each in world.journal.of("priced")} == {1: 19, 2: 7}
    assert [each["order"] for each in world.journal.of("packed")] == [1]
    assert [each["order"] for each in world.journal.of("wrapped")] == [2]
    finished = await old.history()
    assert [step.max_retries for step in finished.steps] == [1, 6, 3]
    assert [step.config for step in finished.steps] == [{"tax": 19}, None, None]
    assert [step.max_retries for step in (await new.history()).steps] == [4, 3, 3]
    [packing] = [each for each in finished.attempts if each.step_index == 1]
    assert (packing.outcome, packing.code_version) == ("succeeded", "monday")
    assert packing.worker == before.id


async def test_work_unknown_to_an_older_worker_waits_for_a_newer_one(world: World) -> None:
    """A rolling deploy: a run of the new version reaches a worker of the old version first."""
    tuesday = world.app(order_of_tuesday)
    before = await world.worker(order_of_monday, version="monday")
    run = await tuesday.start("order", 2)
    await until(lambda: before.events("task.unknown"))
    assert await run.state() == "RUNNING"
    await world.worker(order_of_tuesday, version="tuesday")
    assert await run.result(PATIENCE) == "order 2, shipped"
    assert [each["tax"] for each in world.journal.of("priced")] == [7]
