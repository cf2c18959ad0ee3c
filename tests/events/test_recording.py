"""Events that an application records: stored once, projected once by each projector (G12, G13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.workbench import PATIENCE
from tests.events.conftest import Site

from redrive import Context, Redrive
from redrive.errors import InvalidEntryError, InvalidValueError, NotFoundError
from redrive.events import Event, Stream
from redrive.model.stream import ProjectionStatus
from redrive.parts import parts_of
from redrive.testing import in_memory

URL = "redis://localhost:1"


def score(number: int, **changes: Any) -> Event:
    fields: dict[str, Any] = {
        "type": "score.changed",
        "payload": {"points": number},
        "dedupe_key": f"score-{number}",
        "user": "user_123",
    }
    return Event(**{**fields, **changes})


class Seen:
    """An application whose projectors note the events that they receive."""

    def __init__(self, app: Redrive, **options: Any) -> None:
        self.app = app
        self.events: list[tuple[str, Event]] = []
        self.keys: list[str] = []
        self.stream: Stream = app.stream("scores", URL, **options)

        @self.stream.projector("qscore", types=["score.*"], version=2)
        async def qscore(event: Event, context: Context) -> None:
            self.events.append(("qscore", event))
            self.keys.append(
                str((await parts_of(app).store.runs.get(context.run_id, context.org)).idempotency_key)
            )

        @self.stream.projector("session", max_attempts=1)
        def session(event: Event) -> None:
            self.events.append(("session", event))
            if event.payload == "broken":
                raise ValueError("the projection is broken")


async def work_off(app: Redrive) -> None:
    worker = app.worker()
    async with asyncio.timeout(PATIENCE):
        await worker.work_off()


async def test_an_event_is_stored_once_and_projected_once_by_each_projector_g13(site: Site) -> None:
    seen = Seen(site.app())
    events = seen.app.events()

    [first, twin] = await events.record("scores", [score(1), score(1)])
    [again] = await events.record(seen.stream, [score(1, payload="another")])
    await work_off(seen.app)

    assert first.is_new
    assert (twin.id, again.id) == (first.id, first.id)
    assert not again.is_new
    assert sorted((name, event.payload) for name, event in seen.events) == [
        ("qscore", {"points": 1}),
        ("session", {"points": 1}),
    ]


async def test_the_projector_receives_the_event_as_it_was_stored(site: Site) -> None:
    seen = Seen(site.app())
    [recorded] = await seen.app.events().record("scores", [score(1, source="quiz", occurred_at=7)])
    await work_off(seen.app)

    view = await seen.app.events().get(recorded.id)
    assert len(seen.events) == 2
    for _, event in seen.events:
        assert event == view.event
    assert (view.event.id, view.event.stream, view.event.org) == (recorded.id, "scores", "default")
    assert (view.event.source, view.event.occurred_at, view.event.message_id) == ("quiz", 7.0, None)


async def test_the_key_of_the_run_names_user_event_projector_and_version_g5(site: Site) -> None:
    seen = Seen(site.app())
    with_user, without = await seen.app.events().record("scores", [score(1), score(2, user=None)])
    [odd] = await seen.app.events().record("scores", [score(3, user="ü" * 200)])
    await work_off(seen.app)

    assert f"event:user_123:{with_user.id}:project:qscore:v2" in seen.keys
    assert f"event:-:{without.id}:project:qscore:v2" in seen.keys
    assert any(odd.id in key and len(key) <= 255 for key in seen.keys)


async def test_a_projector_receives_only_the_types_it_wants(site: Site) -> None:
    seen = Seen(site.app())
    await seen.app.events().record("scores", [score(1), score(2, type="user.created")])
    await work_off(seen.app)

    assert sorted((name, event.type) for name, event in seen.events) == [
        ("qscore", "score.changed"),
        ("session", "score.changed"),
        ("session", "user.created"),
    ]


async def test_the_record_of_each_execution_says_how_it_ended_g13(site: Site) -> None:
    seen = Seen(site.app())
    [recorded] = await seen.app.events().record("scores", [score(1, payload="broken")])
    before = await seen.app.events().projections(recorded.id)
    await work_off(seen.app)
    qscore, session = (await seen.app.events().get(recorded.id)).projections

    assert [record.status for record in before] == [ProjectionStatus.QUEUED, ProjectionStatus.QUEUED]
    assert (qscore.projector, qscore.version, qscore.status, qscore.attempt, qscore.error) == (
        "qscore",
        2,
        ProjectionStatus.SUCCEEDED,
        1,
        None,
    )
    assert (session.status, session.error) == (ProjectionStatus.DEAD, "ValueError: the projection is broken")
    assert session.event_id == recorded.id
    assert session.started_at is not None
    assert session.completed_at is not None
    assert session.completed_at >= session.started_at


async def test_a_dead_projection_is_replayed_like_any_dead_letter_g12(site: Site) -> None:
    app, broken = site.app(), True
    stream = app.stream("scores", URL)

    @stream.projector("fragile", max_attempts=1)
    async def fragile(event: Event) -> None:
        if broken:
            raise ValueError("not yet")

    [recorded] = await app.events().record("scores", [score(1)])
    await work_off(app)
    [letter] = (await app.failures().list()).lines
    broken = False
    await app.failures().replay(letter.id)
    await work_off(app)

    [record] = await app.events().projections(recorded.id)
    assert record.status == ProjectionStatus.SUCCEEDED
    assert record.attempt == 2


async def test_an_event_of_another_org_is_refused_w13(site: Site) -> None:
    seen = Seen(site.app(), org="acme", orgs=["globex"])

    with pytest.raises(InvalidValueError, match="acts for 'acme'"):
        await seen.app.events(org="acme").record("scores", [score(1, org="globex")])
    with pytest.raises(InvalidEntryError, match="does not serve"):
        await seen.app.events(org="initech").record("scores", [score(1)])
    await seen.app.events(org="globex").record("scores", [score(1)])
    [recorded] = await seen.app.events(org="acme").record("scores", [score(1)])

    assert recorded.is_new  # each organization has its own dedupe keys
    assert [event.id for event in await seen.app.events(org="acme").list()] == [recorded.id]
    with pytest.raises(NotFoundError):
        await seen.app.events(org="globex").get(recorded.id)


async def test_a_payload_is_redacted_where_it_is_shown_w14(site: Site) -> None:
    seen = Seen(site.app())
    [recorded] = await seen.app.events().record("scores", [score(1, payload={"password": "hunter22"})])

    assert "hunter22" not in str(await seen.app.events().get(recorded.id))
    assert "hunter22" not in str(await seen.app.events().list())
    await work_off(seen.app)
    assert all(event.payload == {"password": "hunter22"} for _, event in seen.events)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dedupe_key": ""}, "dedupe_key of an event must have"),
        ({"type": "a\nb"}, "type of an event"),
        ({"user": ""}, "user of an event"),
        ({"occurred_at": "now"}, "occurred_at"),
    ],
)
async def test_an_invalid_event_is_refused(changes: dict[str, Any], words: str) -> None:
    seen = Seen(Redrive("sqlite://:memory:", log=False))
    async with in_memory(seen.app):
        with pytest.raises(InvalidEntryError, match=words):
            await seen.app.events().record("scores", [score(1, **changes)])


async def test_all_events_are_stored_or_none(site: Site) -> None:
    seen = Seen(site.app())
    with pytest.raises(InvalidValueError):
        await seen.app.events().record("scores", [score(1), score(2, payload=object())])

    assert await seen.app.events().list() == []


def test_a_projector_takes_one_event() -> None:
    app = Redrive("sqlite://:memory:", log=False)
    stream = app.stream("scores", URL)

    with pytest.raises(InvalidValueError, match="must take one parameter of type Event"):

        @stream.projector("wrong")
        async def wrong(event: Event, more: int) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"ordered_by": "payload"},
        {"version": 0},
        {"types": []},
        {"after_failure": "stop"},
        {"colour": 1},
    ],
)
def test_a_projector_with_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    stream = Redrive("sqlite://:memory:", log=False).stream("scores", URL)

    with pytest.raises(InvalidValueError):

        @stream.projector("wrong", **options)
        async def wrong(event: Event) -> None: ...


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://localhost", {}),
        (URL, {"batch": 0}),
        (URL, {"dedupe_by": "luck"}),
        (URL, {"orgs": "acme"}),
        (URL, {"colour": 1}),
        (URL, {"map": 1}),
        (URL, {"stream": "a\n"}),
    ],
)
def test_a_stream_with_a_wrong_option_is_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        Redrive("sqlite://:memory:", log=False).stream("scores", url, **options)


def test_the_address_of_a_stream_is_not_shown() -> None:
    app = Redrive("sqlite://:memory:", log=False)

    assert "hunter22" not in repr(app.stream("scores", "redis://:hunter22@localhost"))
    with pytest.raises(InvalidValueError) as failed:
        app.stream("others", "http://:hunter22@localhost")
    assert "hunter22" not in str(failed.value)
