"""The overview of an organization: needs you, heals itself, recent changes, and sparklines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.engine.workbench import app_at, bench, new_app, seamed, working
from tests.store.build import ask
from tests.store.letters import letter, put

from redrive import Backoff, RetryPolicy
from redrive.app import Redrive
from redrive.errors import FinalError, InvalidValueError, RetryableError, StoreUnavailableError
from redrive.failures.group_queries import MAX_SPARKLINES
from redrive.failures.overview import Overview, ReplayTotals
from redrive.model.failure_group import Timeline
from redrive.model.query import Count
from redrive.model.run import ENDED_RUNS, Cancellation
from redrive.model.statistics import Span, first_part
from redrive.parts import parts_of, rewire
from redrive.policy import Exponential
from redrive.store.database import Database
from redrive.testing import EPOCH, VirtualClock

LATER = RetryPolicy(max_attempts=5, backoff=Backoff(Exponential(3600.0)))


def new_world(**options: Any) -> Redrive:
    """`greet` succeeds, `charge` fails permanently, `flaky` waits for its next attempt."""
    app = new_app(**options)

    @app.task(name="greet")
    async def greet(name: str = "") -> None:
        return None

    @app.task(name="charge")
    async def charge(order: int = 0) -> None:
        raise FinalError("declined")

    @app.task(name="flaky", retry=LATER)
    async def flaky() -> None:
        raise RetryableError("not now")

    return app


@pytest.fixture
async def world(database: Database) -> Redrive:
    app = new_world()
    rewire(app, database, parts_of(app).clock, Random(0))
    return app


async def looked(app: Redrive, span: str = "24h", org: str = "default") -> Overview:
    return await app.failures(org=org).overview(span)


def ended(overview: Overview) -> dict[str, int]:
    return {str(state): sum(numbers) for state, numbers in overview.runs.items() if any(numbers)}


async def test_an_empty_installation_has_zeros(world: Redrive) -> None:
    seen = await looked(world)

    assert (seen.totals.needs_you.total, seen.totals.heals_itself.total) == (0, Count(0, False))
    assert (seen.oldest, seen.replays, seen.replays.rate) == (None, ReplayTotals(0, 0), None)
    assert seen.new == seen.closed == (0,) * 48
    assert seen.runs == dict.fromkeys(ENDED_RUNS, (0,) * 48)


async def test_work_is_seen_by_its_org_alone(world: Redrive) -> None:
    for work, org in (
        ("greet", "acme"),
        ("greet", "acme"),
        ("charge", "acme"),
        ("flaky", "acme"),
        ("greet", "b"),
    ):
        await world.start(work, org=org)
    await parts_of(world).worker_in_test().work_off()

    seen = await looked(world, org="acme")
    assert (seen.totals.needs_you.open, seen.totals.needs_you.total) == (1, 1)
    assert seen.totals.heals_itself.retrying == seen.totals.heals_itself.total == Count(1, False)
    assert (sum(seen.new), sum(seen.closed)) == (1, 0)
    assert ended(seen) == {"SUCCESS": 2, "DLQ_PENDING": 1}
    assert seen.oldest is not None
    assert 0.0 <= seen.oldest.seconds < 600.0
    assert ended(await looked(world, org="b")) == {"SUCCESS": 1}
    assert (await looked(world, org="b")).totals.needs_you.total == 0


async def test_handling_a_letter_changes_the_counts(world: Redrive) -> None:
    runs = [await world.start("charge", number) for number in range(3)]
    worker = parts_of(world).worker_in_test()
    await worker.work_off()
    letters = [letter.id for letter in [await run.dead_letter() for run in runs] if letter is not None]
    failures = world.failures(by="ana")
    await failures.replay(letters[0])
    replaying = (await looked(world)).totals
    await worker.work_off()
    await failures.resolve([letters[1]], "fixed")

    assert (replaying.needs_you.open, replaying.heals_itself.replaying) == (2, 1)
    seen = await looked(world)
    assert seen.totals.needs_you.open == 2
    assert (sum(seen.new), sum(seen.closed), seen.replays) == (3, 1, ReplayTotals(0, 1))
    assert seen.replays.rate == 0.0
    assert seen.oldest is not None
    assert seen.oldest.id == letters[0]
    assert ended(seen) == {"DLQ_PENDING": 4}


async def test_cancellations_are_counted_once_wherever_they_are_made(world: Redrive) -> None:
    run = await world.start("greet")
    assert await run.cancel() is Cancellation.CANCELLED
    await parts_of(world).worker_in_test().work_off()

    assert ended(await looked(world)) == {"CANCELLED": 1}


async def test_work_that_a_breaker_holds_heals_itself(world: Redrive, database: Database) -> None:
    for held_by in ("breaker:bank", "breaker:bank", "breaker:post", "limit:task:greet"):
        run = await world.start("greet")
        text = "UPDATE redrive.runs SET place = 'held', held_by = :held_by, state = 'RUNNING' WHERE id = :id"
        await ask(database, text, id=run.id, held_by=held_by)

    heals = (await world.failures().totals()).heals_itself
    assert (heals.held, heals.total) == (Count(3, False), Count(3, False))


async def test_letters_that_will_be_redriven_do_not_need_you(world: Redrive, database: Database) -> None:
    await world.open()
    await put(database, [letter(), letter(next_redrive_at=9e9), letter(state="EXHAUSTED")])

    needs, heals, _ = await world.failures().totals()
    assert (needs.open, needs.exhausted, needs.total) == (1, 1, 2)
    assert (heals.scheduled, heals.total) == (1, Count(1, False))


async def test_parts_begin_with_the_clock_and_the_last_is_in_progress() -> None:
    app = new_world()
    async with bench(app) as test:
        test.clock.advance(3600.0 - EPOCH % 3600.0 + 120.0)  # two minutes after a full hour
        hour = test.clock.now() - 120.0
        await app.start("charge")
        await test.drain()
        await test.advance(240.0)
        await app.start("charge")
        await app.start("greet")
        await test.drain()
        seen = await looked(app, "1h")
        assert (seen.span, seen.width, len(seen.new)) == (Span.HOUR, 300.0, 12)
        assert (seen.start, seen.moments[-1]) == (hour - 3000.0, hour + 300.0)
        assert seen.new == (0,) * 10 + (1, 1)
        assert [sum(numbers) for numbers in (await looked(app, "7d")).runs.values()] == [1, 0, 0, 2, 0]
        await test.advance(3600.0)
        assert sum((await looked(app, "1h")).new) == 0
        assert (await looked(app, "6h")).new[-7:] == (2, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("span", Span)
async def test_a_span_consists_of_whole_stored_parts(span: Span) -> None:
    hours = {"1h": 1, "6h": 6, "24h": 24, "7d": 168}[span]
    assert span.seconds == hours * 3600
    assert span.width % 300 == 0
    first = first_part(EPOCH, span.width, span.parts)
    assert first % span.width == 0
    assert EPOCH - span.seconds < first <= EPOCH - span.seconds + span.width


async def test_an_unknown_span_is_refused(world: Redrive) -> None:
    with pytest.raises(InvalidValueError, match="span"):
        await looked(world, "2h")


async def test_times_in_the_future_are_in_the_last_part(database: Database) -> None:
    app, clock = new_world(), VirtualClock()  # its time is years behind
    rewire(app, database, clock, Random(0))
    await app.open()
    await put(database, [letter(created_at=EPOCH + 7200.0, fingerprint="f")])

    assert (await looked(app, "1h")).new[-1] == 1
    assert (await app.failures().groups.sparklines(["f"]))["f"].numbers[-1] == 1


async def test_sparklines_are_the_hours_of_the_last_day(database: Database) -> None:
    app, clock = new_world(), VirtualClock()
    rewire(app, database, clock, Random(0))
    await app.open()
    hour = EPOCH - EPOCH % 3600.0
    for at, fingerprint in (
        (0.0, "f"),
        (10.0, "f"),
        (-3600.0, "f"),
        (-23 * 3600.0, "g"),
        (-23 * 3600.0 - 1, "g"),
    ):
        await put(database, [letter(created_at=hour + at, fingerprint=fingerprint)])
    await put(database, [letter(created_at=hour, fingerprint="f", org="acme")])

    lines = await app.failures().groups.sparklines(["f", "g", "h"])

    start, empty = hour - 23 * 3600.0, (0,) * 24
    assert lines == {
        "f": Timeline(start, 3600.0, (*empty[2:], 1, 2)),
        "g": Timeline(start, 3600.0, (1, *empty[1:])),
        "h": Timeline(start, 3600.0, empty),
    }
    assert await app.failures(org="b").groups.sparklines(["f"]) == {"f": Timeline(start, 3600.0, empty)}
    with pytest.raises(InvalidValueError, match="at most"):
        await app.failures().groups.sparklines(["f"] * (MAX_SPARKLINES + 1))


async def test_a_worker_reports_with_its_heartbeat_and_when_it_stops(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")

    @app.task
    async def greet() -> None:
        return None

    async with working(app, heartbeat_seconds=0.1):
        await (await app.start(greet)).result()
        while ended(await looked(app)) != {"SUCCESS": 1}:
            await asyncio.sleep(0.02)
    async with working(app, heartbeat_seconds=600.0):
        await (await app.start(greet)).result()
    assert ended(await looked(app)) == {"SUCCESS": 2}
    await app.close()


async def test_a_failed_report_is_sent_later() -> None:
    app = new_world()
    async with seamed(app) as (_, seam):
        await app.start("greet")
        seam.fail("count_ended")
        worker = parts_of(app).worker_in_test()
        with pytest.raises(StoreUnavailableError):
            await worker.work_off()
        assert ended(await looked(app)) == {}
        await app.start("greet")
        await worker.work_off()
        assert ended(await looked(app)) == {"SUCCESS": 2}
