"""Events of the engine: each is emitted once, with the right fields, and no listener can harm the work."""

from __future__ import annotations

from pathlib import Path

from tests.engine.workbench import (
    EventCollector,
    app_at,
    bench,
    check_ended,
    lose_lease,
    new_app,
    seamed,
    settle,
    working,
)

from redrive import Backoff, BreakerPolicy, RetryPolicy
from redrive.engine.context import Context
from redrive.errors import RateLimitedError
from redrive.model import event
from redrive.model.event import Event, StepRef, fields_of, name_of
from redrive.parts import parts_of
from redrive.policy import Exponential

TWICE = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(5.0)))


async def test_the_events_of_a_run_that_succeeds_after_a_failure() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task(retry=TWICE)
    async def flaky(context: Context) -> str:
        test.clock.advance(2.0)
        if context.attempt == 1:
            raise ConnectionError("no route")
        return "done"

    async with bench(app) as test:
        run = await app.start(flaky, org="acme", correlation_id="trace")
        await test.advance(60)
    queued, first, retry, second, succeeded, finished = collector.events
    assert queued == event.RunQueued(
        org="acme", run_id=run.id, workflow="flaky", queue="default", correlation_id="trace"
    )
    ref = StepRef(
        org="acme",
        run_id=run.id,
        workflow="flaky",
        step_index=0,
        step="flaky",
        task="flaky",
        queue="default",
        attempt=1,
        correlation_id="trace",
    )
    assert first == event.StepStarted(ref, 0)
    assert isinstance(retry, event.RetryScheduled)
    assert (retry.ref, retry.seconds, retry.delay, retry.counted) == (ref, 2.0, 5.0, True)
    assert (retry.failure.category, retry.failure.message) == ("network", "no route")
    assert (retry.explanation.reason, retry.explanation.failures) == ("backoff", 1)
    again = ref.replace(attempt=2)
    assert second == event.StepStarted(again, 1)
    assert succeeded == event.StepRecovered(again, 2.0, 1)
    assert finished == event.RunFinished(
        org="acme",
        run_id=run.id,
        workflow="flaky",
        queue="default",
        correlation_id="trace",
        state="SUCCESS",
        seconds=9.0,
    )


async def test_the_events_of_a_run_that_fails() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task
    async def bad() -> None:
        raise ValueError("broken")

    async with bench(app) as test:
        run = await app.start(bad)
        await test.drain()
    [died], [finished] = collector.of(event.StepDied), collector.of(event.RunFinished)
    assert (died.ref.run_id, died.state, died.explanation.reason) == (run.id, "DLQ_PENDING", "final_error")
    assert died.failure.message == "broken"
    assert finished.state == "DLQ_PENDING"
    assert [name_of(each) for each in collector.events] == [
        "run.queued",
        "step.started",
        "step.died",
        "run.finished",
    ]


async def test_uncharged_waits_are_emitted_as_such() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task(retry=TWICE)
    async def waits(context: Context) -> None:
        if context.attempt == 1:
            raise RateLimitedError(retry_after=30.0)
        if context.attempt == 2:
            context.defer(40.0)

    async with bench(app) as test:
        await test.execute(waits)
    [retry], [released] = collector.of(event.RetryScheduled), collector.of(event.StepReleased)
    assert (retry.delay, retry.counted, retry.explanation.reason) == (30.0, False, "rate_limit_hint")
    assert (released.delay, released.reason, released.ref.attempt) == (40.0, "deferred", 2)


async def test_a_late_result_is_emitted_once_and_changes_nothing() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task
    async def slow(context: Context) -> int:
        if context.attempt == 1:
            await lose_lease(app, context.run_id)
        return context.attempt

    async with bench(app) as test:
        run = await app.start(slow)
        await settle(test, app)
        assert await run.result() == 2
        history = await run.history()
    [lost] = collector.of(event.LeaseLost)
    assert (lost.ref.run_id, lost.ref.attempt) == (run.id, 1)
    [released] = collector.of(event.StepReleased)
    assert released.reason == "lease_lost"
    assert len(collector.of(event.RunFinished)) == len(collector.of(event.StepSucceeded)) == 1
    assert [(each.number, each.outcome) for each in history.attempts] == [(1, "lost"), (2, "succeeded")]


async def test_events_of_a_breaker_its_held_work_and_its_recovery() -> None:
    app = new_app()
    collector = EventCollector(app)
    app.breaker("bank", BreakerPolicy(window_calls=2, minimum_calls=2, cool_down=30.0, successes_to_close=1))
    down = True

    @app.task(breaker="bank", retry=TWICE)
    async def pay() -> None:
        if down:
            raise ConnectionError

    async with bench(app) as test:
        first = await app.start_many(pay, [None, None])
        await test.drain()
        down = False
        held = await app.start(pay)
        await test.drain()
        [told] = collector.of(event.StepHeld)
        assert (told.ref.run_id, told.held_by) == (held.id, "breaker:bank")
        await settle(test, app)
        assert [await run.state() for run in (*first, held)] == ["SUCCESS"] * 3
    changes = [(each.breaker, each.before, each.after) for each in collector.of(event.BreakerChanged)]
    assert changes == [("bank", "CLOSED", "OPEN"), ("bank", "HALF_OPEN", "CLOSED")] or changes == [
        ("bank", "CLOSED", "OPEN"),
        ("bank", "OPEN", "HALF_OPEN"),
        ("bank", "HALF_OPEN", "CLOSED"),
    ]
    released = collector.of(event.HeldReleased)
    assert {each.held_by for each in released} == {"breaker:bank"}
    assert sum(each.runs for each in released) == len(collector.of(event.StepHeld))


async def test_events_of_queues_workers_and_the_database(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    collector = EventCollector(app)

    @app.task
    async def work() -> None: ...

    async with working(app, concurrency=7) as worker:
        await app.queues(by="me").pause("default", reason="deploy")
        await app.queues(by="you").resume("default")
        await (await app.start(work)).result(5)
    assert collector.of(event.QueuePaused) == [event.QueuePaused("default", "me", "deploy")]
    assert collector.of(event.QueueResumed) == [event.QueueResumed("default", "you")]
    assert collector.of(event.WorkerStarted) == [event.WorkerStarted(worker.id, ("default",), 7)]
    assert collector.of(event.WorkerStopping) == [event.WorkerStopping(worker.id, 0, 2.0, "stop")]
    assert collector.of(event.WorkerStopped) == [event.WorkerStopped(worker.id, 0)]
    assert isinstance(collector.events[-1], event.WorkerStopped)


async def test_an_outage_of_the_database_is_emitted_with_its_end() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task
    async def work() -> int:
        return 1

    async with seamed(app) as (test, seam):
        run = await app.start(work)
        seam.fail("complete", times=3)
        await test.drain()
        assert await run.result() == 1
    failed = collector.of(event.StoreFailed)
    assert [(each.doing, each.error) for each in failed] == [("record", "the line is cut")] * 3
    assert [0.05 <= each.wait / 2**number <= 0.1 for number, each in enumerate(failed)] == [True] * 3
    assert [each.doing for each in collector.of(event.StoreRecovered)] == ["record"]


async def test_starting_the_same_key_again_emits_no_new_run() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task
    async def work() -> None: ...

    async with bench(app):
        first = await app.start(work, key="k")
        second = await app.start(work, key="k")
    assert first.id == second.id
    assert [each.run_id for each in collector.of(event.RunQueued)] == [first.id]


async def test_a_run_cancelled_before_it_began_has_finished_too() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        run = await app.start(work, delay=60)
        assert await run.cancel() == "cancelled"
        await test.drain()
        await check_ended(app, 1)
    assert [(each.run_id, each.state) for each in collector.of(event.RunFinished)] == [(run.id, "CANCELLED")]


async def test_every_event_has_a_name_and_flat_fields() -> None:
    app = new_app()
    collector = EventCollector(app)

    @app.task(retry=TWICE)
    async def flaky(context: Context) -> None:
        if context.attempt == 1:
            raise ConnectionError("no")
        raise ValueError("no")

    async with bench(app) as test:
        await app.start(flaky)
        await test.advance(60)
    for each in collector.events:
        fields = fields_of(each)
        assert fields["event"] == name_of(each)
        assert fields["run_id"]
        assert all(isinstance(value, str | int | float | bool) for value in fields.values()), fields
    [retry] = collector.of(event.RetryScheduled)
    assert fields_of(retry)["delay_ms"] == 5_000.0
    assert fields_of(retry)["attempt"] == 1


# Listeners


async def test_a_listener_that_raises_harms_nothing() -> None:
    app = new_app()
    collector: list[Event] = []

    def broken(told: Event) -> None:
        raise RuntimeError("listening failed")

    app.listen(broken)
    app.listen(collector.append)

    @app.task(retry=TWICE)
    async def flaky(context: Context) -> str:
        if context.attempt == 1:
            raise ConnectionError
        return "done"

    async with bench(app) as test:
        assert await test.execute(flaky) == "done"
    assert len(collector) == 6


class Choosy:
    def __init__(self, *kinds: type) -> None:
        self.kinds = kinds
        self.asked: list[type] = []
        self.collector: list[Event] = []

    def wants(self, kind: type[Event]) -> bool:
        self.asked.append(kind)
        return kind in self.kinds

    def __call__(self, told: Event) -> None:
        self.collector.append(told)


async def test_events_without_a_listener_are_not_created() -> None:
    app = new_app()
    choosy = Choosy(event.RunFinished)
    app.listen(choosy)

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await test.execute(work)
    assert [type(each) for each in choosy.collector] == [event.RunFinished]


async def test_a_listener_gets_only_the_events_it_wants_when_others_want_more() -> None:
    app = new_app()
    choosy = Choosy(event.RunFinished)
    app.listen(choosy)
    everything = EventCollector(app)

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await test.execute(work)
    assert len(everything.events) == 4
    assert [type(each) for each in choosy.collector] == [event.RunFinished]


async def test_a_listener_whose_filter_raises_harms_nothing() -> None:
    class Broken:
        def wants(self, kind: type[Event]) -> bool:
            raise RuntimeError("no idea")

        def __call__(self, told: Event) -> None:
            raise RuntimeError("no idea either")

    app = new_app()
    app.listen(Broken())

    @app.task
    async def work() -> int:
        return 1

    async with bench(app, timeout=3.0) as test:
        assert await test.execute(work) == 1


async def test_a_listener_may_unsubscribe_during_an_event() -> None:
    app = new_app()
    collector: list[Event] = []

    def once(told: Event) -> None:
        parts_of(app).event_bus.forget(once)

    app.listen(once)
    app.listen(collector.append)

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await test.execute(work)
    assert len(collector) == 4
