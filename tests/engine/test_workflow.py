"""Workflows: what passes between steps, what a run keeps, and which worker executes the next step."""

from __future__ import annotations

import asyncio
import gc
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from tests.engine.workbench import (
    EventCollector,
    app_at,
    bench,
    check_ended,
    new_app,
    seamed,
    settle,
    working,
)

from redrive import Backoff, BreakerPolicy, RetryPolicy
from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.engine.handle import RunHandle
from redrive.engine.work import Work
from redrive.errors import InvalidValueError, PayloadError
from redrive.model.event import RunFinished, StepReleased, StepStarted, StepSucceeded
from redrive.parts import parts_of
from redrive.policy import Exponential

QUICK = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(1.0)))


async def test_each_step_receives_the_result_of_the_previous_one() -> None:
    app = new_app()
    seen: list[Any] = []

    @app.task
    async def first(number: int, context: Context) -> int:
        seen.append((context.step, dict(context.results), context.run_input))
        return number + 1

    @app.task
    def second(number: int, context: Context) -> dict[str, int]:
        seen.append((context.step, dict(context.results), context.run_input))
        return {"doubled": number * 2}

    @app.task
    async def third(doubled: dict[str, int], context: Context) -> list[Any]:
        seen.append((context.step, dict(context.results), context.run_input))
        return [doubled, context.results["first"]]

    app.workflow("sums", [first, second, third])
    async with seamed(app, watch=True):
        run = await app.start("sums", 4)
        assert await run.result() == [{"doubled": 10}, 5]
        history = await run.history()
        await check_ended(app, 1)
    assert seen == [
        ("first", {}, 4),
        ("second", {"first": 5}, 4),
        ("third", {"first": 5, "second": {"doubled": 10}}, 4),
    ]
    assert [(step.name, step.state, step.output) for step in history.steps] == [
        ("first", "SUCCESS", 5),
        ("second", "SUCCESS", {"doubled": 10}),
        ("third", "SUCCESS", [{"doubled": 10}, 5]),
    ]


async def test_steps_continue_under_one_lease_without_a_breaker_or_limit() -> None:
    app = new_app()
    fences: list[int] = []

    @app.task
    async def step(context: Context) -> None:
        fences.append(context.fence)

    app.workflow("flow", [step.step("a"), step.step("b"), step.step("c")])
    async with seamed(app) as (test, seam):
        await test.execute("flow")
        claims = [name for name in seam.executed if name == "claim"]
    assert fences == [1, 2, 3]
    assert len(claims) == 2  # the second claim found nothing


async def test_a_finished_step_leaves_nothing_to_the_garbage_collector() -> None:
    """Work and context that reference each other would add a sixth to the time of a workflow."""
    app = new_app()

    @app.task
    async def step(number: int, context: Context) -> int:
        if context.attempt == 1:
            raise ConnectionError
        return number + 1

    app.workflow("flow", [step.step("a"), step.step("b")])
    async with bench(app) as test:
        gc.collect()
        gc.disable()
        try:
            # Objects of other tests. Ids do not distinguish them: each test has the same seed.
            before = works_and_contexts()
            await app.start_many("flow", range(5))
            await settle(test, app)
            left = [thing for thing in works_and_contexts() if not any(thing is old for old in before)]
        finally:
            gc.enable()
    assert left == []


def works_and_contexts() -> list[Work | Context]:
    return [thing for thing in gc.get_objects() if type(thing) in (Work, Context)]


@pytest.mark.parametrize(
    "options",
    [{"breaker": "bank"}, {"concurrency": 1}, {"queue": "other"}],
    ids=["breaker", "limit", "another queue"],
)
async def test_a_step_with_a_breaker_or_limit_is_claimed_again(options: dict[str, Any]) -> None:
    app = new_app()
    emitted = EventCollector(app)

    @app.task
    async def first(number: int) -> int:
        return number + 1

    @app.task(**options)
    async def second(number: int, context: Context) -> list[Any]:
        return [number, context.attempt, context.fence, context.results["first"]]

    @app.task
    async def third(numbers: list[int]) -> list[int]:
        return numbers

    app.workflow("flow", [first, second, third])
    async with seamed(app, watch=True):
        run = await app.start("flow", 1)
        assert await run.result() == [2, 1, 2, 2]
        await check_ended(app, 1)
    steps = [each.ref.step for each in emitted.of(StepStarted)]
    assert steps == [each.ref.step for each in emitted.of(StepSucceeded)] == ["first", "second", "third"]
    assert len(emitted.of(RunFinished)) == 1
    queue = options.get("queue", "default")
    assert [each.ref.queue for each in emitted.of(StepStarted)] == ["default", queue, "default"]


async def test_a_queue_that_was_chosen_at_the_start_is_kept_by_all_steps_of_the_same_queue() -> None:
    app = new_app(queues=["express"])
    emitted = EventCollector(app)

    @app.task
    async def step() -> None: ...

    app.workflow("flow", [step.step("a"), step.step("b")])
    async with bench(app) as test:
        await test.execute("flow", queue="express")
    assert [each.ref.queue for each in emitted.of(StepStarted)] == ["express", "express"]


async def test_each_step_has_its_own_config_policy_timeout_and_budget() -> None:
    app = new_app()
    made: list[tuple[str, int, int, Any, float]] = []

    @app.task(retry=QUICK)
    async def call(context: Context, config: Any) -> None:
        made.append((context.step, context.attempt, context.max_attempts, config, context.remaining()))
        if context.failures < context.max_attempts - 1:
            raise ConnectionError

    patient = replace(QUICK, max_attempts=3)
    app.workflow("flow", [call.step("a", config={"n": 1}), call.step("b", retry=patient, timeout=7.0)])
    async with bench(app) as test:
        await test.execute("flow")
    assert made == [
        ("a", 1, 2, {"n": 1}, 300.0),
        ("a", 2, 2, {"n": 1}, 300.0),
        ("b", 1, 3, None, 7.0),
        ("b", 2, 3, None, 7.0),
        ("b", 3, 3, None, 7.0),
    ]


async def test_a_later_step_that_fails_is_retried_alone_and_keeps_the_earlier_results() -> None:
    app = new_app()
    calls: list[str] = []

    @app.task
    async def first() -> str:
        calls.append("first")
        return "once"

    @app.task(retry=QUICK)
    async def second(before: str, context: Context) -> str:
        calls.append("second")
        if context.attempt == 1:
            raise ConnectionError
        return before + str(context.results["first"])

    app.workflow("flow", [first, second])
    async with bench(app) as test:
        assert await test.execute("flow") == "onceonce"
    assert calls == ["first", "second", "second"]


async def test_a_dead_second_step_leaves_the_first_done_and_the_third_pending() -> None:
    app = new_app()

    @app.task
    async def step(context: Context) -> str:
        if context.step == "b":
            raise ValueError("no")
        return context.step

    app.workflow("flow", [step.step("a"), step.step("b"), step.step("c")])
    async with bench(app) as test:
        run = await app.start("flow")
        await test.drain()
        history = await run.history()
        letter = await run.dead_letter()
        await check_ended(app, 1)
    assert [step.state for step in history.steps] == ["SUCCESS", "DLQ", "PENDING"]
    assert letter is not None
    assert (letter.step, letter.step_index, letter.payload) == ("b", 1, "a")


# Types


@dataclass
class Order:
    number: int
    day: date


class Model(pydantic.BaseModel):
    number: int
    day: date


class Typed(TypedDict):
    number: int
    day: date


class Struct(msgspec.Struct):
    number: int
    day: date


@pytest.mark.parametrize("kind", [Order, Model, Typed, Struct])
async def test_payloads_and_results_keep_their_types(kind: Any) -> None:
    app = new_app()
    seen: list[Any] = []

    async def first(value: Any) -> Any:
        seen.append(value)
        return value

    async def second(value: Any) -> Any:
        seen.append(value)

    first.__annotations__["value"] = second.__annotations__["value"] = kind
    app.workflow("flow", [app.task(first), app.task(second)])
    value = kind(number=7, day=date(2026, 2, 1))
    async with bench(app) as test:
        await test.execute("flow", value)
        with pytest.raises(PayloadError, match="number"):
            await app.start("flow", {"number": "seven", "day": "2026-02-01"})
        assert len(await test.started()) == 1
    assert seen == [value, value]
    assert type(seen[0]) is type(seen[1]) is type(value)


async def test_a_result_that_does_not_fit_the_next_step_is_its_failure_and_is_kept() -> None:
    app = new_app()

    @app.task
    async def first() -> str:
        return "no number"

    @app.task
    async def second(number: int) -> None: ...

    app.workflow("flow", [first, second])
    async with bench(app) as test:
        run = await app.start("flow")
        await test.drain()
        letter = await run.dead_letter()
    assert letter is not None
    assert (letter.step, letter.attempts, letter.category) == ("second", 1, "validation")
    assert "PayloadError" in letter.error_type


@pytest.mark.parametrize("kind", [Any, dict, dict[str, Any], dict[str, list[str]]])
async def test_a_task_may_change_its_arguments_without_changing_stored_values(kind: Any) -> None:
    app = new_app()
    seen: list[Any] = []

    @app.task
    async def order(payload: Any) -> Any:
        return payload

    def key_of(payload: Any) -> str:
        payload["tea"].append("the key")
        return "a key"

    async def pack(payload: Any, config: Any, context: Context) -> None:
        given: list[Any] = [payload, config, context.config, context.run_input]
        seen.append(deepcopy(given))
        for value in given:
            value["tea"].append("changed")
            value.update(more=[])
        raise ConnectionError

    pack.__annotations__.update(payload=kind, config=kind)
    task = app.task(retry=QUICK, concurrency=9, concurrency_key=key_of)(pack)
    app.workflow("flow", [order, task.step(config={"tea": ["hot"]})])
    async with bench(app) as test:
        runs = [await app.start("flow", {"tea": ["green"]}) for _ in range(2)]
        await test.advance(60)
        letters = [await run.dead_letter() for run in runs]
    assert seen == 4 * [[{"tea": ["green"]}, {"tea": ["hot"]}, {"tea": ["hot"]}, {"tea": ["green"]}]]
    for letter in letters:
        assert letter is not None
        assert (letter.payload, letter.config) == ({"tea": ["green"]}, {"tea": ["hot"]})


# What a run keeps


def shop(path: Path, *, attempts: int, names: list[str], version: str) -> tuple[Redrive, list[str]]:
    app = app_at(path)
    calls: list[str] = []

    @app.task
    async def pack(context: Context) -> str:
        calls.append(f"{version}:{context.step}:{context.config}")
        if context.step == "late" and context.attempt < 3:
            raise ConnectionError
        return context.step

    policy = RetryPolicy(max_attempts=attempts, backoff=Backoff(Exponential(0.02)))
    app.workflow("shop", [pack.step(name, config=version, retry=policy) for name in names])
    return app, calls


async def test_a_run_keeps_its_definition_when_the_application_is_redefined(tmp_path: Path) -> None:
    old, old_calls = shop(tmp_path / "work.db", attempts=3, names=["early", "late"], version="old")
    async with old:
        run = await old.start("shop")
    new, new_calls = shop(tmp_path / "work.db", attempts=1, names=["other"], version="new")
    async with working(new):
        assert await new.run(run.id).result(5) == "late"
        later = await new.start("shop")
        assert await later.result(5) == "other"
        history = await new.run(run.id).history()
    assert not old_calls
    assert new_calls == ["new:early:old", *["new:late:old"] * 3, "new:other:new"]
    assert [(step.name, step.max_retries, step.config) for step in history.steps] == [
        ("early", 2, "old"),
        ("late", 2, "old"),
    ]


async def test_an_unknown_task_waits_for_a_worker_that_knows_it() -> None:
    app = new_app()

    @app.task(effect="unsafe")
    async def later(number: int) -> int:
        return number + 1

    emitted = EventCollector(app)
    async with seamed(app, watch=True) as (test, _):
        run = await app.start(later, 1)
        task = parts_of(app).registry.tasks.pop("later")
        await test.drain()
        waiting = await run.view()
        assert (waiting.place, waiting.held_by, waiting.step_state) == ("held", "task:later", "PENDING")
        assert (waiting.failures, waiting.holds, waiting.attempt) == (0, 0, 0)
        await test.advance(600.0)
        history = await run.history()
        assert history.attempts == []
        assert [event.what for event in history.events] == ["queued"]
        assert await run.dead_letter() is None
        assert emitted.of(StepReleased) == []
        parts_of(app).registry.tasks["later"] = task
        await test.advance(1.0)
        assert await run.result() == 2
        [only] = (await run.history()).attempts
        assert (only.outcome, only.number) == ("succeeded", 1)


async def test_an_unknown_task_in_the_middle_delays_no_other_run() -> None:
    app = new_app()

    @app.task
    async def known(number: int) -> int:
        return number + 1

    @app.task
    async def gone(number: int) -> int:
        return number * 10

    app.workflow("flow", [known.step("a"), gone, known.step("b")])
    async with bench(app) as test:
        run = await app.start("flow", 1)
        task = parts_of(app).registry.tasks.pop("gone")
        other = await app.start(known, 5)
        await test.drain()
        assert await other.result() == 6
        assert [step.state for step in (await run.history()).steps] == ["SUCCESS", "PENDING", "PENDING"]
        assert (await run.view()).held_by == "task:gone"
        parts_of(app).registry.tasks["gone"] = task
        assert await run.result() == 21


async def test_a_worker_can_be_limited_to_named_work(tmp_path: Path) -> None:
    """D7."""
    app = app_at(tmp_path / "work.db")

    @app.task
    async def mine() -> str:
        return "mine"

    @app.task
    async def yours() -> str:
        return "yours"

    async with working(app, workflows=("mine",)):
        other = await app.start(yours)
        run = await app.start(mine)
        assert await run.result(5) == "mine"
        await until_held(other, "task:yours")


async def until_held(run: RunHandle[Any], holder: str) -> None:
    while (await run.view()).held_by != holder:
        await asyncio.sleep(0.01)


async def test_a_held_middle_step_continues_when_its_breaker_closes() -> None:
    app = new_app()
    app.breaker("bank", BreakerPolicy(cool_down=30.0, successes_to_close=1))

    @app.task
    async def first() -> int:
        return 1

    @app.task(breaker="bank")
    async def pay(number: int) -> int:
        return number + 1

    app.workflow("flow", [first, pay])
    async with seamed(app, watch=True) as (test, _):
        await app.breakers().force("bank", "OPEN", reason="maintenance", seconds=60.0)
        run = await app.start("flow")
        await test.drain()
        held = await run.view()
        assert (held.place, held.held_by, held.step_index, held.attempt) == ("held", "breaker:bank", 1, 0)
        await settle(test, app)
        assert await run.result() == 2
        await check_ended(app, 1)


def test_workflows_are_checked_when_they_are_named() -> None:
    app = new_app()

    @app.task
    async def step() -> None: ...

    with pytest.raises(InvalidValueError, match="two steps named 'step'"):
        app.workflow("twice", [step, step])
    with pytest.raises(InvalidValueError, match="at least one"):
        app.workflow("empty", [])
    with pytest.raises(InvalidValueError, match="already"):
        app.workflow("step", [step])
    app.workflow("flow", [step])
    with pytest.raises(InvalidValueError, match="already"):
        app.workflow("flow", [step])
    with pytest.raises(InvalidValueError, match="must start with a letter"):
        app.workflow("", [step])
