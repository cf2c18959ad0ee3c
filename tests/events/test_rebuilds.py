"""Rebuilds: the stored events of a stream through one projector again, in the order of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.engine.workbench import PATIENCE
from tests.events.conftest import Site
from tests.events.test_recording import URL, score, work_off

from redrive import Context, Redrive
from redrive.errors import InvalidValueError, NotFoundError, TransitionError
from redrive.events import Event
from redrive.events.rebuild_driver import MAX_BATCH, RebuildDriver
from redrive.model.audit import Action
from redrive.model.rebuild import Rebuild
from redrive.model.replay import OperationState
from redrive.parts import parts_of

RUNNING = OperationState.RUNNING


class Scores:
    """An application with the projector qscore, in one or two versions, which notes what it receives."""

    def __init__(self, app: Redrive, *, versions: tuple[int, ...] = (1,), **options: Any) -> None:
        self.app = app
        self.seen: list[tuple[int, str, str]] = []
        self.broken = False
        self.stream = app.stream("scores", URL, **options)
        for version in versions:
            self._declare(version)

    def _declare(self, version: int) -> None:
        @self.stream.projector("qscore", version=version, types=["score.*"], max_attempts=1)
        async def qscore(event: Event, context: Context) -> None:
            self.seen.append((version, event.dedupe_key, context.idempotency_key))
            if self.broken:
                raise ValueError("the projection is broken")

    def keys(self, version: int = 1) -> list[str]:
        return [key for found, key, _ in self.seen if found == version]

    @property
    def driver(self) -> RebuildDriver:
        parts = parts_of(self.app)
        recorder = parts.event_parts(self.app.events()._parts.caller).recorder
        return RebuildDriver(parts.store, recorder, parts.declared.streams)


async def until(app: Redrive, ended: Callable[[], Awaitable[bool]]) -> None:
    """Run a worker until something has happened."""
    worker = app.worker()
    async with asyncio.timeout(PATIENCE):
        running = asyncio.create_task(worker.run())
        while not await ended():
            await asyncio.sleep(0.01)
        worker.stop()
        await running


async def finish(app: Redrive, rebuild: Rebuild, state: OperationState = OperationState.DONE) -> Rebuild:
    async def has_ended() -> bool:
        return (await app.events(org=rebuild.org).rebuilds.view(rebuild.id)).state is not RUNNING

    await until(app, has_ended)
    await work_off(app)
    ended = await app.events(org=rebuild.org).rebuilds.view(rebuild.id)
    assert ended.state is state
    return ended


async def test_every_stored_event_is_projected_again_in_order_g12(site: Site) -> None:
    scores = Scores(site.app())
    events = scores.app.events(by="ana")
    number = MAX_BATCH + 20
    await events.record("scores", [score(count) for count in range(number)])
    await events.record("scores", [score(0, type="user.created", dedupe_key="other")])
    await work_off(scores.app)
    scores.seen.clear()

    started = await events.rebuilds.start("qscore", reason="a new formula")
    ended = await finish(scores.app, started)

    assert scores.keys() == [f"score-{count}" for count in range(number)]
    assert (ended.total, ended.seen, ended.started, ended.skipped) == (number + 1, number + 1, number, 0)
    assert (ended.created_by, ended.reason) == ("ana", "a new formula")
    assert (await events.count("is:succeeded")).number == number
    actions = [entry.action for entry in (await scores.app.failures().audit.list(subject=started.id)).entries]
    assert actions == [Action.REBUILD_FINISHED, Action.REBUILD_STARTED]


async def test_the_key_for_effects_is_that_of_the_first_execution(site: Site) -> None:
    scores = Scores(site.app())
    [recorded] = await scores.app.events().record("scores", [score(1)])
    await work_off(scores.app)
    for _ in range(2):
        await finish(scores.app, await scores.app.events().rebuilds.start("qscore"))

    assert {key for _, _, key in scores.seen} == {f"default:event:user_123:{recorded.id}:project:qscore:v1:0"}
    assert len(scores.seen) == 3
    runs = (await scores.app.runs().list("workflow:scores:qscore:v1")).runs
    assert len({run.idempotency_key for run in runs}) == 3


async def test_a_new_version_is_built_beside_the_old_one(site: Site) -> None:
    old = Scores(site.app())
    await old.app.events().record("scores", [score(1), score(2)])
    await work_off(old.app)
    both = Scores(site.app(), versions=(1, 2))
    await both.app.events().record("scores", [score(3)])

    ended = await finish(both.app, await both.app.events().rebuilds.start("qscore", only_missing=True))

    assert (ended.version, ended.started) == (2, 2)
    assert sorted(both.keys(2)) == ["score-1", "score-2", "score-3"]
    assert both.keys(1) == ["score-3"]
    assert (await both.app.events().count("is:succeeded")).number == 3
    again = await finish(both.app, await both.app.events().rebuilds.start("qscore", only_missing=True))
    assert (again.started, again.seen) == (0, 3)


async def test_events_are_chosen_by_type_and_time(site: Site) -> None:
    scores = Scores(site.app())
    events = scores.app.events()
    await events.record("scores", [score(1), score(2, type="score.removed")])
    first = max(event.stored_at for event in (await events.find()).events)
    [third] = await events.record("scores", [score(3)])
    later = (await events.get(third.id)).event.stored_at
    await work_off(scores.app)
    scores.seen.clear()

    await finish(scores.app, await events.rebuilds.start("qscore", types=["score.removed"]))
    assert scores.keys() == ["score-2"]
    scores.seen.clear()
    if later > first:
        await finish(scores.app, await events.rebuilds.start("qscore", since=later))
        assert scores.keys() == ["score-3"]
        scores.seen.clear()
        await finish(scores.app, await events.rebuilds.start("qscore", until=later))
        assert sorted(scores.keys()) == ["score-1", "score-2"]


async def test_an_event_with_unfinished_work_is_skipped(site: Site) -> None:
    scores = Scores(site.app())
    events = scores.app.events()
    scores.broken = True
    await events.record("scores", [score(1)])
    await work_off(scores.app)
    scores.broken = False
    await events.record("scores", [score(2)])
    await events.rebuilds.start("qscore")

    assert await scores.driver.tick() > 0.0
    [rebuild] = (await events.rebuilds.list()).rebuilds
    await work_off(scores.app)

    assert (rebuild.state, rebuild.started, rebuild.skipped) == (OperationState.DONE, 0, 2)
    assert scores.keys() == ["score-1", "score-2"]


async def test_drivers_at_once_start_each_event_once(site: Site) -> None:
    scores = Scores(site.app())
    number = 2 * MAX_BATCH + 10
    await scores.app.events().record("scores", [score(count) for count in range(number)])
    await work_off(scores.app)
    scores.seen.clear()
    started = await scores.app.events().rebuilds.start("qscore")

    drivers = [scores.driver for _ in range(4)]
    while (await scores.app.events().rebuilds.view(started.id)).state is RUNNING:
        await asyncio.gather(*(driver.tick() for driver in drivers))
        await work_off(scores.app)
    await work_off(scores.app)

    assert sorted(scores.keys()) == sorted(f"score-{count}" for count in range(number))


async def test_a_rebuild_is_paused_resumed_and_cancelled(site: Site) -> None:
    scores = Scores(site.app())
    events = scores.app.events()
    await events.record("scores", [score(count) for count in range(MAX_BATCH + 5)])
    await work_off(scores.app)
    scores.seen.clear()
    started = await events.rebuilds.start("qscore", max_failures=1_000)
    await scores.driver.tick()

    await events.rebuilds.pause(started.id, "too much load")
    await scores.driver.tick()
    paused = await events.rebuilds.view(started.id)
    with pytest.raises(TransitionError, match="is paused; it can be paused only while it is running"):
        await events.rebuilds.pause(started.id)
    await events.rebuilds.resume(started.id)
    await scores.driver.tick()
    done = await events.rebuilds.view(started.id)

    assert (paused.started, done.started) == (MAX_BATCH, MAX_BATCH + 5)
    with pytest.raises(TransitionError, match="is done"):
        await events.rebuilds.cancel(started.id)
    other = await events.rebuilds.start("qscore", rate=0.001)
    cancelled = await events.rebuilds.cancel(other.id)
    await scores.driver.tick()
    assert (cancelled.state, (await events.rebuilds.view(other.id)).started) == (OperationState.CANCELLED, 0)
    assert [found.id for found in (await events.rebuilds.list(size=1)).rebuilds] == [other.id]
    cursor = (await events.rebuilds.list(size=1)).next_cursor
    assert [found.id for found in (await events.rebuilds.list(size=1, cursor=cursor)).rebuilds] == [
        started.id
    ]


async def test_a_driver_that_has_looked_before_a_pause_starts_nothing(site: Site) -> None:
    scores = Scores(site.app())
    await scores.app.events().record("scores", [score(1)])
    await work_off(scores.app)
    started = await scores.app.events().rebuilds.start("qscore")
    driver, [projector] = scores.driver, scores.stream.projectors
    [snapshot] = await parts_of(scores.app).store.rebuilds.running()

    await scores.app.events().rebuilds.pause(started.id)
    await driver._advance(snapshot, projector)

    assert (await scores.app.events().rebuilds.view(started.id)).seen == 0


async def test_a_projector_has_one_unfinished_rebuild(site: Site) -> None:
    scores = Scores(site.app())
    await scores.app.events().record("scores", [score(1)])
    first = await scores.app.events().rebuilds.start("qscore")

    with pytest.raises(TransitionError, match=f"rebuild {first.id} of the projector 'qscore' v1"):
        await scores.app.events().rebuilds.start("qscore")
    await scores.app.events().rebuilds.cancel(first.id)
    await scores.app.events().rebuilds.start("qscore")


async def test_a_rate_limits_the_executions(site: Site) -> None:
    scores = Scores(site.app())
    events = scores.app.events()
    await events.record("scores", [score(count) for count in range(5)])
    await work_off(scores.app)
    started = await events.rebuilds.start("qscore", rate=0.001)

    await scores.driver.tick()

    assert (await events.rebuilds.view(started.id)).started == 0


async def test_a_rebuild_stops_when_the_projector_fails(site: Site) -> None:
    scores = Scores(site.app())
    events = scores.app.events()
    await events.record("scores", [score(count) for count in range(50)])
    await work_off(scores.app)
    scores.seen.clear()
    scores.broken = True
    started = await events.rebuilds.start("qscore", max_failures=3)
    stopped = await finish(scores.app, started, OperationState.STOPPED)

    assert stopped.stopped_because is not None
    assert stopped.stopped_because.code == "rebuild_failures"
    # The driver may start some more before it sees the third failure.
    assert 3 <= stopped.started == len(scores.seen) < 50
    scores.broken = False
    await events.rebuilds.resume(started.id)
    ended = await finish(scores.app, started)
    assert (ended.started, ended.skipped, ended.stopped_because) == (50, 0, None)


async def test_a_program_without_the_projector_leaves_the_rebuild_to_others(site: Site) -> None:
    scores, other = Scores(site.app()), site.app()
    await scores.app.events().record("scores", [score(1)])
    await work_off(scores.app)
    started = await scores.app.events().rebuilds.start("qscore")
    stream = other.stream("scores", URL)

    @stream.projector("mail")
    async def mail(event: Event) -> None: ...

    await work_off(other)
    assert (await other.events().rebuilds.view(started.id)).seen == 0
    with pytest.raises(NotFoundError, match="found no projector 'qscore'"):
        await other.events().rebuilds.start("qscore")
    with pytest.raises(NotFoundError, match="does not declare version 7"):
        await scores.app.events().rebuilds.start("qscore", version=7)


async def test_an_event_that_can_not_be_ordered_is_skipped(site: Site) -> None:
    app = site.app()
    stream = app.stream("scores", URL)
    await app.events().record("scores", [score(1), score(2, payload={})])

    @stream.projector("ordered", ordered_by=lambda event: event.payload["points"])
    async def ordered(event: Event) -> None: ...

    ended = await finish(app, await app.events().rebuilds.start("ordered"))

    assert (ended.started, ended.skipped) == (1, 1)


async def test_another_org_can_not_rebuild_w13(site: Site) -> None:
    scores = Scores(site.app(), org="acme", orgs=["globex"])
    await scores.app.events(org="acme").record("scores", [score(1)])
    await scores.app.events(org="globex").record("scores", [score(2)])
    await work_off(scores.app)
    scores.seen.clear()
    started = await scores.app.events(org="acme").rebuilds.start("qscore")

    for org in ("globex", "initech"):
        stranger = scores.app.events(org=org).rebuilds
        for control in (stranger.view, stranger.pause, stranger.resume, stranger.cancel):
            with pytest.raises(NotFoundError):
                await control(started.id)
        assert (await stranger.list()).rebuilds == ()
    with pytest.raises(NotFoundError, match="no projector"):
        await scores.app.events(org="initech").rebuilds.start("qscore")
    await finish(scores.app, started)
    assert scores.keys() == ["score-1"]


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 0.0},
        {"types": "score"},
        {"max_failures": 0},
        {"since": 2.0, "until": 1.0},
        {"only_missing": 1},
        {"version": 0},
        {"colour": 1},
    ],
)
async def test_a_wrong_option_is_refused(site: Site, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        await Scores(site.app()).app.events().rebuilds.start("qscore", **options)
