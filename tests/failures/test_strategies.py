"""Strategies stored at run time: every process follows them, and the audit records changes (M5, issue 21)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import PATIENCE, working
from tests.servers import PostgresServer
from tests.store.build import ask
from tests.store.schemas import Schemas

from redrive import DeadLetterQueue, Redrive
from redrive.errors import InvalidValueError, ReplayRefusedError, TransitionError
from redrive.failures import strategies
from redrive.model.run import RunState
from redrive.parts import parts_of
from redrive.policy.triage import Strategy
from redrive.settings import Settings
from redrive.testing import in_memory

DOWN = ConnectionError("the server does not answer")
CARD = "4111111111111111"


class Site:
    """One database, and several programs with an application each."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self.apps: list[Redrive] = []

    def app(self, **settings: Any) -> Redrive:
        app = Redrive(self.url, settings=Settings(schema=self.schema, **settings), log=False)

        @app.task(max_attempts=1)
        async def work() -> None:
            raise ValueError("wrong")

        @app.task(max_attempts=1, queue="mail")
        async def send() -> None:
            raise ValueError("wrong")

        self.apps.append(app)
        return app

    def queue(self, **options: Any) -> DeadLetterQueue:
        settings = Settings(schema=self.schema)
        queue = DeadLetterQueue(self.url, lambda task: task, settings=settings, log=False, **options)
        self.apps.append(queue.app)
        return queue


@pytest.fixture(params=["sqlite", "postgres"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "sqlite":
            site = Site(f"sqlite:///{tmp_path / 'work.db'}", "redrive")
        else:
            server: PostgresServer = request.getfixturevalue("live_postgres")
            schemas: Schemas = request.getfixturevalue("schemas")
            site = Site(server.url, await stack.enter_async_context(schemas.lent()))
        yield site
        for app in site.apps:
            await app.close()


async def state(app: Redrive, task: str = "work", org: str = "default") -> RunState:
    """Start a run that fails, and return the state that it ends in."""
    run = await app.start(task, org=org)
    return await run.wait(60)


async def audited(app: Redrive, org: str = "default") -> list[tuple[str, str, tuple[str, ...], Any]]:
    entries = (await app.failures(org=org).audit.list()).entries
    return [
        (entry.actor, entry.action, entry.subjects, entry.detail)
        for entry in entries
        if entry.action.endswith("strategy_changed")
    ]


async def test_a_running_worker_follows_a_change_of_another_process(site: Site) -> None:
    operator, app = site.app(), site.app()
    stored = operator.failures(by="ana").strategies
    async with working(app):
        assert await state(app) is RunState.DLQ_PENDING
        await stored.change("selective", reason="too many typing errors")
        await until_ends(app, RunState.FAILED)
        await stored.change("automatic")
        await until_ends(app, RunState.DLQ_PENDING)
        await stored.change("manual", queue="mail")
        await until_ends(app, RunState.FAILED, "send")
        assert await state(app) is RunState.DLQ_PENDING
        await stored.change(None, queue="mail")
        await until_ends(app, RunState.DLQ_PENDING, "send")
    assert await audited(operator) == [
        ("ana", "queue.strategy_changed", ("mail",), {"before": "manual", "after": "automatic"}),
        ("ana", "queue.strategy_changed", ("mail",), {"before": "automatic", "after": "manual"}),
        ("ana", "organization.strategy_changed", ("default",), {"before": "selective", "after": "automatic"}),
        (
            "ana",
            "organization.strategy_changed",
            ("default",),
            {"before": "automatic", "after": "selective", "reason": "too many typing errors"},
        ),
    ]


async def until_ends(app: Redrive, wanted: RunState, task: str = "work") -> None:
    """Start failing runs until one ends in this state."""
    async with asyncio.timeout(PATIENCE):
        while await state(app, task) is not wanted:
            pass


async def test_a_worker_knows_the_strategies_before_its_first_run(site: Site) -> None:
    app = site.app()
    await app.failures().strategies.change("selective")
    run = await app.start("work")
    async with working(app, poll_seconds=60.0):
        assert await run.wait(60) is RunState.FAILED


async def test_each_organization_has_separate_strategies(site: Site) -> None:
    app = site.app()
    await app.failures(org="acme").strategies.change("manual")
    assert [view.strategy for view in await app.failures().strategies.list()] == ["automatic"]
    await parts_of(app).strategies.refresh()
    worker = parts_of(app).worker_in_test()
    runs = [await app.start("work", org=org) for org in ("acme", "default")]
    await worker.work_off()
    assert [await run.state() for run in runs] == [RunState.FAILED, RunState.DLQ_PENDING]
    assert await audited(app) == []


async def test_a_queue_takes_precedence_over_its_organization_and_that_over_the_setting(site: Site) -> None:
    app = site.app(dlq_strategy="selective")
    stored = app.failures(by="ana").strategies
    [setting] = await stored.list()
    assert (setting.queue, setting.strategy, setting.changed_by) == (None, "selective", None)
    await stored.change("manual", reason=f"my card is {CARD}")
    await stored.change("automatic", queue="mail")
    everywhere, mail = await stored.list()
    assert (everywhere.queue, everywhere.strategy, everywhere.changed_by) == (None, "manual", "ana")
    assert (mail.queue, mail.strategy) == ("mail", "automatic")
    assert CARD not in str(everywhere.reason) + str(await audited(app))
    assert (await stored.view("mail")).strategy is Strategy.AUTOMATIC
    assert (await stored.view("other")).strategy is Strategy.MANUAL
    assert (await stored.change(None, queue="mail")).strategy is Strategy.MANUAL
    assert (await stored.change(None)).strategy is Strategy.SELECTIVE
    assert [view.strategy for view in await stored.list()] == ["selective"]


async def test_removing_a_missing_strategy_changes_nothing(site: Site) -> None:
    app = site.app()
    assert (await app.failures().strategies.change(None, queue="mail")).strategy is Strategy.AUTOMATIC
    assert await audited(app) == []


async def test_a_process_without_dead_letters_stays_without(site: Site) -> None:
    app = site.app(dlq_enabled=False)
    await app.failures().strategies.change("automatic")
    await parts_of(app).strategies.refresh()
    run = await app.start("work")
    await parts_of(app).worker_in_test().work_off()
    assert await run.state() is RunState.FAILED


async def test_a_failed_run_can_become_a_dead_letter_unless_the_strategy_is_disabled(site: Site) -> None:
    app, operator = site.app(), site.app()
    await operator.failures().strategies.change("manual")
    run = await app.start("work")
    await parts_of(app).worker_in_test().work_off()
    await operator.failures().strategies.change("disabled", queue="default")
    with pytest.raises(ReplayRefusedError, match="'disabled' writes no dead letters"):
        await app.failures().add(run.id)
    await operator.failures().strategies.change(None, queue="default")
    assert await app.failures().add(run.id)


async def test_a_letter_that_is_replayed_stays_a_letter(site: Site) -> None:
    app = site.app()
    worker = parts_of(app).worker_in_test()
    run = await app.start("work")
    await worker.work_off()
    letter = await run.dead_letter()
    assert letter is not None
    await app.failures().strategies.change("disabled")
    await app.failures().replay(letter.id)
    await worker.work_off()
    assert await run.state() is RunState.DLQ_PENDING


async def test_18_the_strategy_of_a_queue_is_stored_and_its_other_processes_follow(site: Site) -> None:
    one, other = site.queue(), site.queue()
    assert await other.offer("one", {}, error=ValueError("wrong")) is not None
    await one.set_strategy("selective")
    assert await one.offer("two", {}, error=ValueError("wrong")) is None
    assert await other.strategy() is Strategy.SELECTIVE
    async with asyncio.timeout(PATIENCE):
        while await other.offer("three", {}, error=ValueError("wrong")) is not None:
            await asyncio.sleep(0.05)
    later = site.queue(strategy="automatic")
    assert await later.offer("four", {}, error=ValueError("wrong")) is None
    assert await later.offer("five", {}, error=DOWN) is not None
    assert await site.queue(name="another").offer("six", {}, error=ValueError("wrong")) is not None


async def test_a_queue_follows_its_organization(site: Site) -> None:
    app, queue = site.app(), site.queue()
    await app.failures().strategies.change("disabled")
    assert await queue.strategy() is Strategy.DISABLED
    with pytest.raises(InvalidValueError, match="disabled"):
        await queue.enqueue("one", {}, error=DOWN)
    await queue.set_strategy("automatic")
    assert await queue.enqueue("one", {}, error=DOWN)


async def test_a_strategy_of_a_newer_version_is_left_aside(site: Site) -> None:
    app = site.app()
    await app.failures().strategies.change("manual")
    await ask(parts_of(app).database, "UPDATE redrive.dead_letter_strategies SET strategy = 'by_moonlight'")
    assert (await app.failures().strategies.view()).strategy is Strategy.AUTOMATIC


async def test_wrong_values_and_too_many_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = site.app().failures().strategies
    with pytest.raises(InvalidValueError, match="strategy must be one of"):
        await stored.change("some")
    with pytest.raises(InvalidValueError, match="queue must start with"):
        await stored.change("manual", queue="a\x00b")
    monkeypatch.setattr(strategies, "MAX_STRATEGIES", 1)
    await stored.change("manual")
    with pytest.raises(TransitionError, match="already have a strategy of their own"):
        await stored.change("manual", queue="mail")
    assert len(await stored.list()) == 1


def test_a_program_without_an_event_loop_changes_it_too() -> None:
    app = Redrive("sqlite://:memory:", log=False)
    try:
        stored = app.sync.failures().strategies
        assert stored.change("manual").strategy == "manual"
        assert [view.strategy for view in stored.list()] == ["manual"]
        assert stored.view().changed_by == "application"
    finally:
        app.sync.close()


async def test_in_memory_the_queue_starts_with_the_setting() -> None:
    dlq = DeadLetterQueue("sqlite://:memory:", lambda task: task, strategy="selective", log=False)
    async with in_memory(dlq.app):
        assert await dlq.strategy() is Strategy.SELECTIVE
