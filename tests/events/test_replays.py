"""Replays of events: by id with selected projectors, and bulk replays of failed projections (G12)."""

from __future__ import annotations

import asyncio

import pytest
from tests.events.conftest import Site
from tests.events.test_recording import URL, score, work_off

from redrive import Context, Redrive
from redrive.errors import InvalidValueError, NotFoundError, ReplayRefusedError
from redrive.events import Event
from redrive.events.replays import ReplayAction
from redrive.model.audit import Action
from redrive.model.stream import ProjectionStatus
from redrive.parts import parts_of


class Projected:
    """An application whose projectors note the keys and payloads they receive; `broken` ones fail."""

    def __init__(self, app: Redrive, *, org: str = "default") -> None:
        self.app, self.broken = app, set[str]()
        self.calls: list[tuple[str, str, object]] = []
        self.stream = app.stream("scores", URL, org=org)

        @self.stream.projector("qscore", types=["score.*"], max_attempts=1)
        async def qscore(event: Event, context: Context) -> None:
            self._note("qscore", event, context)

        @self.stream.projector("session", max_attempts=1)
        async def session(event: Event, context: Context) -> None:
            self._note("session", event, context)

    def _note(self, name: str, event: Event, context: Context) -> None:
        self.calls.append((name, context.idempotency_key, event.payload))
        if name in self.broken:
            raise ValueError("the projection is broken")

    def keys(self, name: str) -> list[str]:
        return [key for caller, key, _ in self.calls if caller == name]


async def statuses(app: Redrive, event_id: str) -> dict[str, ProjectionStatus]:
    return {record.projector: record.status for record in await app.events().projections(event_id)}


async def test_an_event_is_replayed_with_selected_projectors_g12(site: Site) -> None:
    projected = Projected(site.app())
    events = projected.app.events(by="ana")
    [recorded] = await events.record("scores", [score(1, payload={"password": "hunter22"})])
    await work_off(projected.app)
    before = {record.projector: record.run_id for record in await events.projections(recorded.id)}

    [replay] = await events.replays.start(recorded.id, ["qscore"], reason="a new formula")
    waiting = await statuses(projected.app, recorded.id)
    await work_off(projected.app)

    after = {record.projector: record.run_id for record in await events.projections(recorded.id)}
    assert (replay.action, replay.status) == (ReplayAction.START, ProjectionStatus.SUCCEEDED)
    assert replay.run_id == after["qscore"] != before["qscore"]
    assert after["session"] == before["session"]
    assert waiting == {"qscore": ProjectionStatus.QUEUED, "session": ProjectionStatus.SUCCEEDED}
    first, second = projected.keys("qscore")
    assert first == second
    assert [payload for _, _, payload in projected.calls] == [{"password": "hunter22"}] * 3
    view = await events.get(recorded.id)
    assert view.event.dedupe_key == "score-1"
    [entry] = (await projected.app.failures().audit.list(action=Action.EVENT_REPLAYED)).entries
    assert (entry.actor, entry.subjects) == ("ana", (recorded.id,))
    assert entry.detail == {"reason": "a new formula", "projectors": ["scores:qscore:v1"]}


async def test_a_failed_projection_continues_its_run_and_closes_its_dead_letter_g12(site: Site) -> None:
    projected = Projected(site.app())
    projected.broken = {"qscore"}
    events = projected.app.events()
    [recorded] = await events.record("scores", [score(1)])
    await work_off(projected.app)
    projected.broken = set()

    replays = await events.replays.start(recorded.id)
    await work_off(projected.app)

    assert [(replay.projector, replay.action) for replay in replays] == [
        ("qscore", ReplayAction.RETRY),
        ("session", ReplayAction.START),
    ]
    assert set((await statuses(projected.app, recorded.id)).values()) == {ProjectionStatus.SUCCEEDED}
    assert len(set(projected.keys("qscore"))) == 1
    assert len(set(projected.keys("session"))) == 1
    assert (await projected.app.failures().count("is:live")).number == 0


async def test_an_unfinished_projection_is_not_started_again(site: Site) -> None:
    projected = Projected(site.app())
    events = projected.app.events()
    [recorded] = await events.record("scores", [score(1)])

    with pytest.raises(ReplayRefusedError, match=r"qscore v1: its execution is not finished: it is queued"):
        await events.replays.start(recorded.id, ["qscore"])
    preview = await events.replays.preview(recorded.id)

    assert {replay.action for replay in preview} == {ReplayAction.NONE}
    await work_off(projected.app)
    assert len(projected.calls) == 2


async def test_one_of_several_replays_at_once_starts_a_run(site: Site) -> None:
    projected = Projected(site.app())
    events = projected.app.events()
    [recorded] = await events.record("scores", [score(1)])
    await work_off(projected.app)

    answers = await asyncio.gather(
        *(events.replays.start(recorded.id, ["qscore"]) for _ in range(4)), return_exceptions=True
    )
    await work_off(projected.app)

    assert any(isinstance(answer, list) for answer in answers)
    started = [
        replay
        for answer in answers
        if isinstance(answer, list)
        for replay in answer
        if replay.action is ReplayAction.START
    ]
    assert len(started) == 1
    assert len(projected.keys("qscore")) == 2


async def test_a_new_projector_gets_an_old_event(site: Site) -> None:
    old = Projected(site.app())
    [recorded] = await old.app.events().record("scores", [score(1)])
    await work_off(old.app)
    new = Projected(site.app())
    names = []

    @new.stream.projector("mail")
    async def mail(event: Event) -> None:
        names.append(event.dedupe_key)

    @new.stream.projector("other", types=["user.*"])
    async def other(event: Event) -> None:
        names.append("other")

    [replay] = await new.app.events().replays.start(recorded.id, ["mail"])
    await work_off(new.app)

    assert (replay.action, replay.status) == (ReplayAction.START, None)
    assert names == ["score-1"]
    with pytest.raises(ReplayRefusedError, match=r"does not process events of type 'score\.changed'"):
        await new.app.events().replays.start(recorded.id, ["other"])
    with pytest.raises(ReplayRefusedError, match="does not declare the projector 'mail' in version 1"):
        await old.app.events().replays.start(recorded.id, ["mail"])
    with pytest.raises(NotFoundError, match="did you mean 'qscore'"):
        await new.app.events().replays.start(recorded.id, ["qscor"])


async def test_a_run_that_retention_removed_is_replaced(site: Site) -> None:
    projected = Projected(site.app())
    events = projected.app.events()
    [recorded] = await events.record("scores", [score(1)])
    await work_off(projected.app)
    await parts_of(projected.app).store.runs.remove_expired(-60.0, 10)
    removed = await statuses(projected.app, recorded.id)

    await events.replays.start(recorded.id)
    await work_off(projected.app)

    assert set(removed.values()) == {ProjectionStatus.REMOVED}
    assert set((await statuses(projected.app, recorded.id)).values()) == {ProjectionStatus.SUCCEEDED}
    assert len(set(projected.keys("qscore"))) == 1


async def test_failed_projections_are_replayed_in_bulk_g12(site: Site) -> None:
    projected = Projected(site.app())
    projected.broken = {"qscore"}
    events, failures = projected.app.events(by="ana"), projected.app.failures()
    await events.record("scores", [score(number) for number in range(5)])
    await work_off(projected.app)
    projected.broken = set()

    plan = await events.replays.plan("is:failed projector:qscore", limit=3, canary=1, reason="fixed")
    everything = await events.replays.plan("is:failed")
    nothing = await events.replays.plan("is:failed projector:session")
    await failures.plans.start(plan.operation_id)
    await work_off(projected.app)

    assert (plan.will_run, everything.will_run, nothing.will_run) == (3, 5, 0)
    assert (await events.count("is:failed")).number == 2
    assert (await failures.plans.view(plan.operation_id)).planned_by == "ana"
    kept = [event.dedupe_key for event in (await events.find("is:failed")).events]
    assert kept == ["score-4", "score-3"]  # the oldest were replayed


@pytest.mark.parametrize("query", ["", "type:score.changed", "-is:succeeded"])
async def test_a_bulk_replay_names_a_state(site: Site, query: str) -> None:
    with pytest.raises(InvalidValueError, match="needs a state"):
        await site.app().events().replays.plan(query)


async def test_another_org_can_not_replay_w13(site: Site) -> None:
    projected = Projected(site.app(), org="acme")
    projected.broken = {"qscore"}
    [recorded] = await projected.app.events(org="acme").record("scores", [score(1)])
    await work_off(projected.app)
    stranger = projected.app.events(org="globex")

    with pytest.raises(NotFoundError):
        await stranger.replays.start(recorded.id)
    with pytest.raises(NotFoundError):
        await stranger.replays.preview(recorded.id)
    assert (await stranger.replays.plan("is:failed")).selected == 0
    await work_off(projected.app)
    assert len(projected.calls) == 2


async def test_no_run_of_a_caller_may_look_like_a_further_run(site: Site) -> None:
    projected = Projected(site.app())

    with pytest.raises(InvalidValueError, match="reserved for further runs"):
        await projected.app.start("scores:qscore:v1", {"type": "a"}, key="mine~again~" + "0" * 32)
