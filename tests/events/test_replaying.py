"""Stored events are projected again: one event by chosen projectors, or all of them by one (G12)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.events.conftest import Site
from tests.events.test_recording import URL, score, work_off
from tests.store.build import ask

from redrive import Redrive
from redrive.errors import InvalidValueError, NotFoundError
from redrive.events import Event, Stream
from redrive.model.stream import ProjectionStatus
from redrive.parts import parts_of


class Scores:
    """Two projectors; one fails while `is_broken`."""

    def __init__(self, app: Redrive, retention: Any = None, **options: Any) -> None:
        self.app = app
        self.is_broken = False
        self.seen: list[tuple[str, Any]] = []
        self.stream: Stream = app.stream("scores", URL, retention=retention)

        @self.stream.projector("qscore", **options)
        async def qscore(event: Event) -> None:
            self.seen.append(("qscore", event.payload["points"]))

        @self.stream.projector("session", max_attempts=1)
        async def session(event: Event) -> None:
            if self.is_broken:
                raise ValueError("broken")
            self.seen.append(("session", event.payload["points"]))

    async def record(self, *numbers: int, **changes: Any) -> list[str]:
        recorded = await self.app.events().record("scores", [score(number, **changes) for number in numbers])
        return [event.id for event in recorded]


async def test_an_event_is_projected_again_by_chosen_projectors_g12(site: Site) -> None:
    scores = Scores(site.app())
    [event_id] = await scores.record(1)
    await work_off(scores.app)
    [replayed] = await scores.app.events(by="ana").replay(event_id, projectors=["qscore"], reason="fixed")
    await work_off(scores.app)
    records = await scores.app.events().projections(event_id)

    assert (replayed.projector, replayed.status, replayed.is_started) == ("qscore", "succeeded", True)
    assert sorted(scores.seen) == [("qscore", 1), ("qscore", 1), ("session", 1)]
    assert [record.status for record in records] == [ProjectionStatus.SUCCEEDED] * 2
    assert len(await scores.app.events().list()) == 1
    [entry] = (await scores.app.failures().audit.list(action="event.replayed")).entries
    assert (entry.actor, entry.subjects) == ("ana", (event_id,))
    assert entry.detail == {"projectors": ["scores:qscore:v1"], "reason": "fixed"}


async def test_a_dead_projection_is_replayed_with_its_letter_g12(site: Site) -> None:
    scores = Scores(site.app())
    scores.is_broken = True
    [event_id] = await scores.record(1)
    await work_off(scores.app)
    scores.is_broken = False
    outcomes = await scores.app.events().replay(event_id, projectors=["session"])
    await work_off(scores.app)

    assert [(outcome.status, outcome.is_started) for outcome in outcomes] == [("dead", True)]
    assert ("session", 1) in scores.seen
    [line] = (await scores.app.failures().list("is:resolved")).lines
    assert line.state == "RESOLVED"


async def test_an_unfinished_projection_is_left_alone(site: Site) -> None:
    scores = Scores(site.app())
    [event_id] = await scores.record(1)
    outcomes = await scores.app.events().replay(event_id)
    await work_off(scores.app)

    assert [(outcome.status, outcome.is_started) for outcome in outcomes] == [("queued", False)] * 2
    assert sorted(scores.seen) == [("qscore", 1), ("session", 1)]


async def test_a_new_projector_is_routed_when_an_event_is_replayed_g12(site: Site) -> None:
    first = Scores(site.app())
    [event_id] = await first.record(1)
    await work_off(first.app)
    later = Scores(site.app())
    seen: list[Any] = []

    @later.stream.projector("badges")
    async def badges(event: Event) -> None:
        seen.append(event.payload["points"])

    [outcome] = await later.app.events().replay(event_id, projectors=["badges"])
    await work_off(later.app)

    assert (outcome.status, seen) == (None, [1])
    assert {record.projector for record in await later.app.events().projections(event_id)} == {
        "badges",
        "qscore",
        "session",
    }


async def test_a_projection_is_rebuilt_in_order_in_pages_that_may_be_repeated_g12(site: Site) -> None:
    first = Scores(site.app())
    await first.record(*range(1, 8))
    await first.record(8, type="user.created")
    await work_off(first.app)
    later = Scores(site.app(), version=2, ordered_by="user")
    events = later.app.events(by="ana")
    page = await events.rebuild("scores", "qscore", types=["score.*"], limit=3)
    again = await events.rebuild("scores", "qscore", types=["score.*"], limit=3, rebuild_id=page.rebuild_id)
    started = page.started + 0 * again.started
    while page.after is not None:
        page = await events.rebuild(
            "scores", "qscore", types=["score.*"], limit=3, rebuild_id=page.rebuild_id, after=page.after
        )
        started += page.started
    await work_off(later.app)

    assert started == 7
    assert later.seen == [("qscore", number) for number in range(1, 8)]
    assert len((await later.app.failures().audit.list(action="projection.rebuilt")).entries) == 1


async def test_wrong_names_are_refused(site: Site) -> None:
    scores = Scores(site.app())
    [event_id] = await scores.record(1)

    with pytest.raises(NotFoundError, match="did you mean 'qscore'"):
        await scores.app.events().replay(event_id, projectors=["qscor"])
    with pytest.raises(InvalidValueError, match="did you mean 'session'"):
        await scores.app.events().rebuild("scores", "sesion")
    with pytest.raises(NotFoundError):
        await scores.app.events().replay("0" * 32)


async def test_streams_are_listed_with_their_state(site: Site) -> None:
    scores = Scores(site.app())
    [view] = await scores.app.streams().list()

    assert (view.name, view.key, view.group, view.state, view.waiting) == (
        "scores",
        "scores",
        "redrive",
        None,
        0,
    )
    assert view.projectors == ["qscore:v1", "session:v1"]
    await scores.app.streams().pause("scores")
    state = (await scores.app.streams().view("scores")).state
    assert state is not None
    assert state.paused_by == "application"
    assert await scores.app.streams(org="another").list() == []


async def test_old_events_are_removed_by_type_unless_a_run_needs_them(site: Site) -> None:
    scores = Scores(site.app(), retention={"score.kept": 1e6, "score.*": 500.0})
    [done] = await scores.record(1)
    [kept] = await scores.record(4, type="score.kept")
    [other] = await scores.record(5, type="user.created")
    await work_off(scores.app)
    scores.is_broken = True
    [dead] = await scores.record(2)
    await work_off(scores.app)
    [queued] = await scores.record(3)
    retention = parts_of(scores.app).event_retention(scores.stream)
    assert await retention.remove("default") == 0
    await ask(parts_of(scores.app).database, "UPDATE redrive.events SET stored_at = stored_at - 1000")

    assert await retention.remove("default") == 1
    assert {event.id for event in await scores.app.events().list()} == {dead, queued, kept, other}
    assert await parts_of(scores.app).store.events.records(done, "default") == []


def test_a_retention_is_a_duration_or_durations_by_type() -> None:
    app = Redrive("sqlite://:memory:", log=False)

    assert app.stream("forever", URL).retention_of("any") is None
    assert app.stream("short", URL, retention=60).retention_of("any") == 60.0
    with pytest.raises(InvalidValueError):
        app.stream("none", URL, retention=0)
