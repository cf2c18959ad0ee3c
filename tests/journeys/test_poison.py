"""Work that never succeeds, or kills its workers, becomes a dead letter; other work continues."""

from __future__ import annotations

from typing import Any

import pytest
from tests.journeys.apps import crashing, quick
from tests.journeys.journal import note
from tests.journeys.world import PATIENCE, World, until

from redrive.engine.context import Context

PASSWORD = "canary-Pa55-of-ada-9471"
API_KEY = "canary-k3y-of-shop-6230"
AWS_KEY = "AKIAIOSFODNN7CANARYQ"


async def test_a_poison_step_becomes_a_dead_letter_at_once_with_its_history_and_without_its_secrets(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "redrive")
    app = world.app()

    @app.task
    async def load(user: dict[str, Any]) -> dict[str, Any]:
        return user

    @app.task(retry=quick(max_attempts=5))
    async def check(user: dict[str, Any], context: Context) -> dict[str, Any]:
        note("checked", name=user["name"])
        if user["name"] == "ada":
            raise ValueError(f"no such plan, password={user['password']} key {AWS_KEY}")
        return user

    @app.task
    async def publish(user: dict[str, Any]) -> str:
        return f"published {user['name']}"

    app.workflow("import", [load, check.step(config={"plan": "gold", "api_key": API_KEY}), publish])

    async with world.working(app):
        poison = await app.start(
            "import", {"name": "ada", "password": PASSWORD}, correlation_id="request 17", key="import-ada"
        )
        others = [await app.start("import", {"name": name, "password": ""}) for name in ("bob", "eve")]
        assert await poison.wait(PATIENCE) == "DLQ_PENDING"
        assert [await each.result(PATIENCE) for each in others] == ["published bob", "published eve"]

    assert world.journal.count("checked", name="ada") == 1
    history = await poison.history()
    assert [(step.name, step.state) for step in history.steps] == [
        ("load", "SUCCESS"), ("check", "DLQ"), ("publish", "PENDING"),
    ]  # fmt: skip

    letter = await poison.dead_letter()
    assert letter is not None
    assert (letter.org, letter.run_id, letter.workflow) == ("default", poison.id, "import")
    assert (letter.step_index, letter.step, letter.task) == (1, "check", "check")
    assert (letter.category, letter.error_class, letter.error_type) == ("validation", "final", "ValueError")
    assert (letter.reason, letter.state, letter.attempts, letter.failures) == ("final_error", "OPEN", 1, 1)
    assert "no such plan" in letter.message
    assert "in check" in letter.stack
    assert letter.correlation_id == "request 17"
    assert letter.idempotency_key == "default:import-ada:1"
    assert letter.payload["name"] == "ada"
    assert letter.config["plan"] == "gold"
    assert letter.policy["max_attempts"] == 5
    assert letter.first_failed_at == letter.last_failed_at is not None
    assert (letter.replay_count, letter.resolved_by) == (0, None)

    logged = [record.getMessage() + repr(vars(record)) for record in caplog.records]
    assert any("step.died" in line for line in logged)
    for secret in (PASSWORD, API_KEY, AWS_KEY):
        assert secret not in repr(letter)
        assert secret not in repr(history.attempts)
        assert secret not in repr(history.events)
        assert not any(secret in line for line in logged)


async def test_the_events_of_a_workflow_are_emitted_in_the_order_of_its_steps(world: World) -> None:
    app = world.app()

    @app.task
    async def load(number: int) -> int:
        return number

    @app.task
    async def check(number: int) -> None:
        raise ValueError(number)

    app.workflow("import", [load, check])
    async with world.working(app):
        run = await app.start("import", 7)
        assert await run.wait(PATIENCE) == "DLQ_PENDING"
    assert [(each.what, each.step) for each in (await run.history()).events] == [
        ("queued", None),
        ("started", "load"),
        ("succeeded", "load"),
        ("started", "check"),
        ("failed", "check"),
        ("finished", None),
    ]


async def test_a_step_that_kills_its_process_ends_alone_and_its_neighbors_succeed(world: World) -> None:
    app = world.app(crashing)
    bomb = await app.start("bomb", 0)
    innocents = [await app.start("innocent", number) for number in range(6)]

    async with world.supervised(crashing, concurrency=5) as workers:
        await until(lambda: world.journal.count("bomb") >= 3)  # from now on it executes in isolation
        innocents += [await app.start("innocent", number) for number in range(6, 9)]
        assert await bomb.wait(PATIENCE) == "DLQ_PENDING"
        assert [await each.result(PATIENCE) for each in innocents] == list(range(9))

    letter = await bomb.dead_letter()
    assert letter is not None
    assert letter.reason == "worker_crashed"
    assert "5 workers" in letter.message
    assert "3 of them while executing nothing else" in letter.message
    # A worker that missed its maintenance for two thirds of a lease, here 7 s, would blame no attempt for
    # a loss, because the database may have been down. Then there would be a sixth execution.
    assert world.journal.count("bomb") == 5
    assert [worker.exit_code for worker in workers[:5]] == [1] * 5
    attempts = (await bomb.history()).attempts
    assert [attempt.outcome for attempt in attempts] == ["lost"] * 5
    assert len({attempt.worker for attempt in attempts}) == 5
    for each in innocents:
        assert await each.dead_letter() is None
    assert_alone_at_last(world)


def assert_alone_at_last(world: World) -> None:
    """Check that the last three processes that the bomb has killed had started nothing else next to it."""
    killed = [each.process for each in world.journal.of("bomb")][2:]
    for process in killed:
        last = [each for each in world.journal.of() if each.process == process and each.what == "innocent"]
        [bomb] = [each for each in world.journal.of("bomb") if each.process == process]
        assert all(bomb.at - each.at >= 0.3 for each in last)
