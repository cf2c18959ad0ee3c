"""The redrive processor (M1, M3, M10, M12): due letters execute again, once, and by their policy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, bench, seamed, sql, working

from redrive.app import Redrive
from redrive.engine.task import AnyTask
from redrive.errors import InvalidValueError, StoreUnavailableError, TransitionError
from redrive.failures.redrive_processor import Pass, Processor, ProcessorOptions
from redrive.model.dead_letter import DeadLetter
from redrive.model.event import AlertRaised, DeadLetterChanged, ProcessorChanged, ReplayEnded, ReplayRequested
from redrive.parts import parts_of
from redrive.policy.monitor import Thresholds
from redrive.settings import Settings
from redrive.testing import Harness

MINUTE, DAY = 60.0, 86_400.0


def new_app() -> Redrive:
    """Create an application whose workers have no processor: the tests call their own."""
    return Redrive("sqlite://:memory:", settings=Settings(dlq_processor_enabled=False), log=False)


class Flaky:
    """A task that times out until the test repairs it."""

    def __init__(self, app: Redrive, **options: Any) -> None:
        self.broken = True
        self.seen: list[object] = []
        self.task: AnyTask = app.task(**{"name": "flaky", "max_attempts": 1, **options})(self.execute)

    async def execute(self, payload: object) -> str:
        self.seen.append(payload)
        if self.broken:
            raise TimeoutError("no answer")
        return "done"


def processor_of(app: Redrive, **options: Any) -> Processor:
    parts = (
        parts_of(app).store,
        parts_of(app).breakers,
        parts_of(app).clock,
        parts_of(app).event_bus,
        parts_of(app).ids,
        parts_of(app).retrier,
    )
    return Processor(*parts, ProcessorOptions(**options))


async def letters_of(app: Redrive) -> list[DeadLetter]:
    return [
        letter
        for run in await parts_of(app).store.runs.all()
        for letter in await parts_of(app).store.dead_letters.of_run(run.id, run.org)
    ]


async def letter_of(app: Redrive) -> DeadLetter:
    [letter] = await letters_of(app)
    return letter


async def audited(app: Redrive, action: str) -> list[tuple[Any, ...]]:
    rows = await sql(app, "SELECT org, actor, subject, detail FROM audit WHERE action = ?1", action)
    return [tuple(row) for row in rows]


class TestPolicies:
    async def test_a_letter_is_redriven_when_its_time_has_come(self) -> None:
        """M1: exponential waits 1, 2, 4 minutes."""
        app = new_app()
        flaky = Flaky(app, redrive="exponential")
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.drain()
            processor, executed = processor_of(app), []
            for _ in range(9):
                executed.append((await processor.run_once()).redriven)
                await test.drain()
                await test.advance(MINUTE)
            assert executed == [0, 1, 0, 1, 0, 0, 0, 1, 0]
            assert len(flaky.seen) == 4

    async def test_a_successful_redrive_resolves_its_letter(self) -> None:
        app = new_app()
        collector, flaky = EventCollector(app), Flaky(app, redrive="immediate")
        async with bench(app) as test:
            run = await app.start(flaky.task, 1)
            await test.drain()
            flaky.broken = False
            assert (await processor_of(app).run_once()).redriven == 1
            assert (await letter_of(app)).state == "REPLAYING"
            assert await run.result() == "done"
            letter = await letter_of(app)
            assert (letter.state, letter.redrives, letter.last_replayed_by) == ("RESOLVED", 1, "redrive")
            assert [event.by for event in collector.of(ReplayRequested)] == ["redrive"]
            assert [event.state for event in collector.of(ReplayEnded)] == ["SUCCEEDED"]
            assert (await audited(app, "replay.requested"))[0][:3] == ("default", "redrive", letter.id)

    async def test_a_letter_that_has_used_up_its_redrives_is_exhausted(self) -> None:
        """M3: the letter becomes exhausted and is not redriven again."""
        app = new_app()
        flaky = Flaky(app, redrive="immediate", max_redrives=2)
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.drain()
            processor = processor_of(app)
            states = []
            for _ in range(4):
                await processor.run_once()
                await test.drain()
                states.append((await letter_of(app)).state)
            assert states == ["OPEN", "EXHAUSTED", "EXHAUSTED", "EXHAUSTED"]
            assert (await letter_of(app)).redrives == 2
            assert processor.redriven == 2

    async def test_a_letter_without_a_redrive_policy_is_not_redriven(self) -> None:
        app = new_app()
        flaky = Flaky(app)
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.advance(30 * DAY)
            assert await processor_of(app).run_once() == Pass(0, 0, 0)
            assert len(flaky.seen) == 1

    async def test_a_custom_policy_is_redriven_where_it_is_known(self) -> None:
        app = new_app()
        parts_of(app).declared.redrive_functions["own"] = lambda n: 10.0
        flaky = Flaky(app, redrive="custom:own")
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.advance(11.0)
            assert (await processor_of(app).run_once()).redriven == 0
            assert (await letter_of(app)).state == "OPEN"
            assert (
                await processor_of(app, functions=parts_of(app).declared.redrive_functions).run_once()
            ).redriven == 1


class TestOrder:
    async def test_the_highest_priority_first_then_the_oldest(self) -> None:
        """M12."""
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with bench(app) as test:
            for number, priority in enumerate([0, 5, 0, 5]):
                await app.start(flaky.task, number, priority=priority)
                await test.drain()
                test.clock.advance(1.0)
            collector = EventCollector(app)
            await processor_of(app).run_once()
            runs = {run.id: run for run in await parts_of(app).store.runs.all()}
            asked = [runs[event.run_id].input for event in collector.of(ReplayRequested)]
            assert sorted(asked) == ["0", "1", "2", "3"]
            flaky.seen.clear()
            await test.drain()
            assert flaky.seen == [1, 3, 0, 2]

    async def test_more_than_one_look_holds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("redrive.failures.redrive_processor.MAX_DUE_BATCH", 4)
        monkeypatch.setattr("redrive.failures.redrive_processor.MAX_BATCH_SIZE", 3)
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with bench(app) as test:
            await app.start_many(flaky.task, range(10))
            await test.drain()
            assert (await processor_of(app).run_once()).redriven == 10
            assert {letter.state for letter in await letters_of(app)} == {"REPLAYING"}

    async def test_a_letter_that_waits_for_another_letter(self) -> None:
        """M12: B is redriven only after A has succeeded."""
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with bench(app) as test:
            await app.start_many(flaky.task, ["a", "b"])
            await test.drain()
            a, b = sorted(await letters_of(app), key=lambda letter: letter.payload)
            await sql(app, "INSERT INTO dead_letter_dependencies VALUES (?1, ?2, 'default')", b.id, a.id)
            processor = processor_of(app)
            flaky.seen.clear()
            assert (await processor.run_once()).redriven == 1
            assert (await processor.run_once()).redriven == 0
            flaky.broken = False
            await test.drain()
            assert (await processor.run_once()).redriven == 1
            await test.drain()
            assert flaky.seen == ["a", "b"]

    async def test_a_letter_whose_dependency_is_gone(self) -> None:
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.drain()
            own = (await letter_of(app)).id
            await sql(app, "INSERT INTO dead_letter_dependencies VALUES (?1, 'gone', 'default')", own)
            assert (await processor_of(app).run_once()).redriven == 1


class TestBreakers:
    async def test_an_open_breaker_is_respected(self) -> None:
        """M3."""
        app = new_app()
        flaky = Flaky(app, redrive="immediate", breaker="bank")
        other = Flaky(app, redrive="immediate", name="other")
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await app.start(other.task, 1)
            await test.drain()
            await app.breakers().force("bank", "OPEN", reason="maintenance")
            processor = processor_of(app)
            assert (await processor.run_once()).redriven == 1
            assert {letter.task: letter.state for letter in await letters_of(app)} == {
                "flaky": "OPEN",
                "other": "REPLAYING",
            }
            await app.breakers().force("bank", "CLOSED", reason="over")
            assert (await processor.run_once()).redriven == 1


class TestGuards:
    async def test_a_letter_that_an_operator_replays_is_left_alone(self) -> None:
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.drain()
            first, second = processor_of(app), processor_of(app)
            assert [(await each.run_once()).redriven for each in (first, second)] == [1, 0]

    @pytest.mark.parametrize("change", ["state = 'CANCELLED'", "state = 'SUCCESS'", "place = 'ready'"])
    async def test_a_run_that_cannot_be_replayed_stops_no_other_run(
        self, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("redrive.failures.redrive_processor.MAX_DUE_BATCH", 1)
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with bench(app) as test:
            await app.start_many(flaky.task, [1, 2])
            await test.drain()
            await sql(app, f"UPDATE runs SET {change} WHERE input = '1'")
            assert (await processor_of(app).run_once()).redriven == 1

    async def test_a_letter_that_was_closed_in_between(self) -> None:
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with seamed(app) as (test, seam):
            await app.start(flaky.task, 1)
            await test.drain()

            async def close() -> None:
                await sql(app, "UPDATE dead_letters SET state = 'IGNORED'")

            seam.after("due", close)
            assert (await processor_of(app).run_once()).redriven == 0
            assert (await letter_of(app)).state == "IGNORED"

    @pytest.mark.parametrize("statement", ["restart", "mark_replaying", "insert", "insert_entry"])
    @pytest.mark.parametrize("after", [False, True])
    async def test_a_database_that_fails_half_way(self, statement: str, after: bool) -> None:
        """All or nothing, and the next pass redrives no letter twice."""
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with seamed(app, watch=True) as (test, seam):
            await app.start(flaky.task, 1)
            await test.drain()
            seam.fail(statement, after=after)
            processor = processor_of(app)
            with pytest.raises(StoreUnavailableError):
                await processor.run_once()
            await processor.run_once()
            await test.drain()
            letter = await letter_of(app)
            assert (letter.redrives, letter.replay_count, len(flaky.seen)) == (1, 1, 2)


class TestArchive:
    @asynccontextmanager
    async def exhausted(self, **options: Any) -> AsyncIterator[tuple[Redrive, Harness, Processor]]:
        app = new_app()
        flaky = Flaky(app, redrive="immediate", max_redrives=1)
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.drain()
            processor = processor_of(app, **options)
            await processor.run_once()
            await test.drain()
            assert (await letter_of(app)).state == "EXHAUSTED"
            yield app, test, processor

    async def test_a_letter_that_has_been_exhausted_for_a_week(self) -> None:
        """M10."""
        async with self.exhausted() as (app, test, processor):
            collector = EventCollector(app)
            await test.advance(7 * DAY - 1)
            assert (await processor.run_once()).archived == 0
            await test.advance(2)
            assert (await processor.run_once()).archived == 1
            letter = await letter_of(app)
            assert (letter.state, letter.resolved_by) == ("ARCHIVED", "redrive")
            assert letter.resolution == "exhausted for more than 7 days"
            [changed] = collector.of(DeadLetterChanged)
            assert changed == DeadLetterChanged(
                org="default", dlq_id=letter.id, before="EXHAUSTED", after="ARCHIVED", by="redrive"
            )
            [(org, actor, subject, detail)] = await audited(app, "dead_letter.archived")
            assert (org, actor, subject) == ("default", "redrive", letter.id)
            assert "7 days" in detail

    async def test_never_when_no_listener_wants_it(self) -> None:
        async with self.exhausted(archive_seconds=None) as (app, test, processor):
            await test.advance(365 * DAY)
            assert (await processor.run_once()).archived == 0
            assert (await letter_of(app)).state == "EXHAUSTED"

    async def test_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("redrive.failures.redrive_processor.MAX_BATCH_SIZE", 2)
        async with self.exhausted() as (app, test, processor):
            for number in range(4):
                columns = "id, run_id, state, exhausted_at, " + OTHERS
                await sql(
                    app,
                    f"INSERT INTO dead_letters ({columns}) SELECT ?1, ?1, state, exhausted_at, {OTHERS} "
                    "FROM dead_letters LIMIT 1",
                    f"copy {number}",
                )
            await test.advance(8 * DAY)
            assert (await processor.run_once()).archived == 5
            [[entries, letters]] = await sql(
                app, "SELECT count(*), count(subjects) FROM audit WHERE action = 'dead_letter.archived'"
            )
            assert (entries, letters) == (3, 2)


OTHERS = """org, step_index, step, task, workflow, queue, category, error_class, error_type, message,
    public_code, reason, fingerprint, fingerprint_reason, title, attempts,
    failures, payload, settings, idempotency_key, correlation_id, created_at, updated_at,
    replay_count"""


class TestGroups:
    async def test_a_group_whose_ignore_period_is_over_is_open_again(self) -> None:
        app = new_app()
        flaky = Flaky(app)
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.drain()
            change = "UPDATE failure_groups SET state = 'IGNORED', ignored_until = ?1"
            await sql(app, change, test.clock.now() + 5.0)
            processor = processor_of(app)
            assert (await processor.run_once()).reopened_groups == 0
            await test.advance(6.0)
            assert (await processor.run_once()).reopened_groups == 1
            assert len(await audited(app, "group.reopened")) == 1


class TestAlerts:
    async def test_an_alert_is_emitted_once_and_again_after_it_had_cleared(self) -> None:
        """M10."""
        app = new_app()
        collector, flaky = EventCollector(app), Flaky(app, redrive="immediate", max_redrives=1)
        async with bench(app) as test:
            await app.start(flaky.task, 1)
            await test.drain()
            processor = processor_of(app, thresholds=Thresholds(exhausted=0, success_percent=0))
            for _ in range(3):
                await processor.run_once()
                await test.drain()
            [told] = collector.of(AlertRaised)
            assert told == AlertRaised(
                org="default",
                queue="",
                alert="many_exhausted",
                message="1 dead letter has no automatic redrives left",
            )
            await sql(app, "UPDATE dead_letters SET state = 'RESOLVED'")
            await processor.run_once()
            await sql(app, "UPDATE dead_letters SET state = 'EXHAUSTED'")
            await processor.run_once()
            assert len(collector.of(AlertRaised)) == 2

    async def test_how_full_the_queue_is(self) -> None:
        app = new_app()
        collector, flaky = EventCollector(app), Flaky(app)
        async with bench(app) as test:
            await app.start_many(flaky.task, range(9))
            await test.drain()
            await processor_of(app, max_size=10).run_once()
            assert [event.alert for event in collector.of(AlertRaised)] == ["queue_nearly_full"]

    async def test_success_is_judged_by_the_last_hour(self) -> None:
        app = new_app()
        collector, flaky = EventCollector(app), Flaky(app, redrive="immediate", max_redrives=100)
        async with bench(app) as test:
            processor = processor_of(app, thresholds=Thresholds(minimum_samples=4))
            flaky.broken = True
            await app.start_many(flaky.task, range(10))
            await test.drain()
            await processor.run_once()
            flaky.broken = False
            await test.drain()
            await processor.run_once()
            await test.advance(3700.0)
            await processor.run_once()
            flaky.broken = True
            await app.start_many(flaky.task, range(4))
            await test.drain()
            await processor.run_once()
            assert collector.of(AlertRaised) == []
            await test.drain()
            await processor.run_once()
            assert [event.alert for event in collector.of(AlertRaised)] == ["few_successes"]


async def until(reached: Callable[[], bool]) -> None:
    while not reached():
        await asyncio.sleep(0)


class TestStartingAndStopping:
    async def test_its_state_is_visible(self) -> None:
        """M3."""
        app = new_app()
        collector = EventCollector(app)
        await app.open()
        processor = processor_of(app)
        assert processor.state == "stopped"
        processor.start()
        assert processor.state == "running"
        with pytest.raises(TransitionError, match="the processor is already running; stop it"):
            processor.start()
        await processor.stop()
        assert processor.state == "stopped"
        await processor.stop()
        assert [event.state for event in collector.of(ProcessorChanged)] == ["running", "stopped"]
        await app.close()

    async def test_it_can_be_started_again(self) -> None:
        app = new_app()
        await app.open()
        processor = processor_of(app)
        for _ in range(2):
            processor.start()
            await processor.stop()
        assert processor.state == "stopped"
        await app.close()

    async def test_others_see_its_heartbeat(self) -> None:
        app = new_app()
        await app.open()
        processor = processor_of(app, interval_seconds=60.0)
        processor.start()
        while not (found := await processor._redrives.processors()):
            await asyncio.sleep(0)
        assert [(row.id, row.queue, row.state, row.interval_seconds, row.running) for row in found] == [
            (processor.id, "", "running", 60.0, True)
        ]
        await processor.stop()
        [row] = await processor._redrives.processors()
        assert (row.state, row.running) == ("stopped", False)
        assert not row._replace(state="running", seen_at=row.now - 181.0).running
        await app.close()

    async def test_it_redrives_by_itself(self) -> None:
        app = new_app()
        collector, flaky = EventCollector(app), Flaky(app, redrive="immediate")
        async with working(app):
            run = await app.start(flaky.task, 1)
            await run.wait()
            flaky.broken = False
            processor = processor_of(app, interval_seconds=0.01)
            processor.start()
            await until(lambda: bool(collector.of(ReplayEnded)))
            assert await run.result() == "done"
            await processor.stop()

    async def test_it_outlives_a_database_that_is_away(self) -> None:
        app = new_app()
        flaky = Flaky(app, redrive="immediate")
        async with seamed(app) as (test, seam):
            await app.start(flaky.task, 1)
            await test.drain()
            seam.fail("due", times=2)
            processor = processor_of(app)
            processor.start()
            await until(lambda: processor.redriven == 1)
            await processor.stop()
            assert (await letter_of(app)).state == "REPLAYING"

    @pytest.mark.parametrize("seconds", [0, -1, 86_401, "60"])
    def test_a_strange_interval(self, seconds: Any) -> None:
        with pytest.raises(InvalidValueError, match=r"interval_seconds must be a number from 0\.01"):
            ProcessorOptions(interval_seconds=seconds)
