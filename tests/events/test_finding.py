"""Finding events by a query: by what they are, and by how their projectors have fared."""

from __future__ import annotations

from typing import Any

import pytest
from tests.events.conftest import Site
from tests.events.test_recording import URL, score, work_off

from redrive import Redrive
from redrive.errors import InvalidValueError
from redrive.events import Event
from redrive.model.query import Count
from redrive.model.stream import ProjectionStatus


def declare(app: Redrive, **options: Any) -> None:
    """Declare a stream with a projector that fails for the payload "broken", and one that never fails."""
    stream = app.stream("scores", URL, **options)

    @stream.projector("qscore", types=["score.*"], max_attempts=1)
    async def qscore(event: Event) -> None:
        if event.payload == "broken":
            raise ValueError("the projection is broken")

    @stream.projector("session")
    async def session(event: Event) -> None: ...


async def found(app: Redrive, query: str, org: str = "default") -> list[str]:
    """Return the dedupe keys of the events that match, the newest first."""
    return [event.dedupe_key for event in (await app.events(org=org).find(query)).events]


async def test_events_are_found_by_what_they_are(site: Site) -> None:
    app = site.app()
    declare(app)
    app.stream("others", URL)
    [first] = await app.events().record("scores", [score(1, source="quiz")])
    await app.events().record("scores", [score(2, type="user.created", user="ana")])
    await app.events().record("others", [score(3)])

    assert await found(app, "") == ["score-3", "score-2", "score-1"]
    assert await found(app, "stream:scores") == ["score-2", "score-1"]
    assert await found(app, "type:user.created,unknown") == ["score-2"]
    assert await found(app, "-type:user.created") == ["score-3", "score-1"]
    assert await found(app, "source:quiz") == ["score-1"]
    assert await found(app, "-source:quiz") == ["score-3", "score-2"]
    assert await found(app, "user:ana") == ["score-2"]
    assert await found(app, "key:score-3") == ["score-3"]
    assert await found(app, f"id:{first.id}") == ["score-1"]
    assert await found(app, f"id:{first.id[:31]}") == ["score-1"]
    assert await found(app, "id:unknown") == []
    assert await found(app, "since:1h until:0s stream:others") == ["score-3"]
    assert await found(app, "until:1h") == []
    assert await app.events().count("stream:scores") == Count(2, False)


async def test_events_are_found_by_the_state_of_their_projections_g13(site: Site) -> None:
    app = site.app()
    declare(app)
    await app.events().record("scores", [score(1), score(2, payload="broken")])
    await work_off(app)
    await app.events().record("scores", [score(3)])

    assert await found(app, "is:queued") == ["score-3"]
    assert await found(app, "is:live") == ["score-3"]
    assert await found(app, "is:running,retrying,waiting,cancelled,removed") == []
    assert await found(app, "is:dead") == ["score-2"]
    assert await found(app, "is:failed") == ["score-2"]
    assert await found(app, "is:succeeded") == ["score-2", "score-1"]
    assert await found(app, "is:failed projector:session") == []
    assert await found(app, "is:succeeded projector:qscore") == ["score-1"]
    assert await found(app, "-is:succeeded") == ["score-3", "score-2"]
    assert await found(app, "-projector:session") == ["score-3", "score-2", "score-1"]
    assert await found(app, "projector:unknown") == []
    assert await found(app, "is:failed -is:dead,failed") == []
    assert await found(app, "is:dead,queued stream:scores") == ["score-3", "score-2"]
    assert await app.events().count("is:any") == Count(3, False)
    assert await app.events().count("is:failed") == Count(1, False)


async def test_a_list_shows_each_projection_and_no_payload(site: Site) -> None:
    app = site.app()
    declare(app)
    [recorded] = await app.events().record("scores", [score(2, payload="broken")])
    await work_off(app)

    [event] = (await app.events().find()).events
    assert [(record.projector, record.status) for record in event.projections] == [
        ("qscore", ProjectionStatus.DEAD),
        ("session", ProjectionStatus.SUCCEEDED),
    ]
    assert (event.id, event.user, event.stream, event.message_id) == (
        recorded.id,
        "user_123",
        "scores",
        None,
    )
    assert await app.events().event_of_run(event.projections[0].run_id) == recorded.id
    assert await app.events().event_of_run("0" * 32) is None


async def test_pages_show_every_event_once(site: Site) -> None:
    app = site.app()
    declare(app)
    await app.events().record("scores", [score(number, payload="broken") for number in range(7)])
    await work_off(app)

    for query in ("", "is:failed", "projector:qscore"):
        keys, cursor = [], None
        while True:
            page = await app.events().find(query, size=3, cursor=cursor)
            keys += [event.dedupe_key for event in page.events]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert sorted(keys) == [f"score-{number}" for number in range(7)], query


async def test_another_org_finds_nothing_w13(site: Site) -> None:
    app = site.app()
    declare(app, org="acme", orgs=["globex"])
    await app.events(org="acme").record("scores", [score(1, payload="broken")])
    await work_off(app)

    for query in ("", "is:failed", "is:any", "key:score-1", "projector:qscore", "type:score.changed"):
        assert await found(app, query, "acme") == ["score-1"], query
        assert await found(app, query, "globex") == [], query
        assert await app.events(org="globex").count(query) == Count(0, False)
    [event] = (await app.events(org="acme").find()).events
    assert await app.events(org="globex").event_of_run(event.projections[0].run_id) is None


@pytest.mark.parametrize(
    ("query", "words"),
    [("category:timeout", "category"), ("score", "no key"), ("is:open", "open")],
)
async def test_a_query_of_another_language_is_refused(site: Site, query: str, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        await site.app().events().find(query)
