"""The page of an event: what it says, how its projectors have fared, and where it leads (G11, G13)."""

from __future__ import annotations

from tests.server.admin.reading import Reading, read
from tests.server.admin.streamed import SECRET, Scores
from tests.server.house import House

from redrive.events import Event, StreamEntry
from redrive.events.ingest import DeadCause
from redrive.parts import parts_of

EVENTS = "/app/admin/events"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def rows(page: Reading) -> list[str]:
    """What the page says about each projector."""
    return [each.text for each in page.find("tr", data_row="")]


async def test_the_page_says_how_each_projector_has_fared_g13(house: House) -> None:
    scores = Scores(house)
    event = await scores.record()
    client = await house.keyed("VIEWER")
    queued = rows(await read(client, f"{EVENTS}/{event}"))
    assert [text.split(" – ")[0] for text in queued] == ["qscore v2 Queued", "session v1 Queued"]

    scores.is_broken = True
    await house.work()
    page = await read(client, f"{EVENTS}/{event}")
    succeeded, dead = rows(page)
    assert succeeded.startswith("qscore v2 Succeeded 1")
    assert dead.startswith("session v1 Dead letter 1 redrive.errors.FinalError: no session for user_123")
    assert "1 projector has failed with this event: session" in page.text
    letter = (await house.app.failures().list()).lines[0]
    runs = [each for each in page.links if each.startswith("/app/admin/runs/")]
    assert f"/app/admin/runs/{letter.run_id}" in runs
    assert f"/app/admin/dlq/{letter.id}" in page.links


async def test_the_page_shows_the_facts_and_the_redacted_payload(house: House) -> None:
    event = await Scores(house).record(7, payload={"points": 7, "password": "hunter22", "token": SECRET})
    page = await read(await house.keyed("VIEWER"), f"{EVENTS}/{event}")
    for fact in ("score.changed", "scores", "score-7", "quiz", "user_123", event[:8], "points 7"):
        assert fact in page.text, fact
    assert "none: the application recorded it" in page.text
    assert "hunter22" not in page.text
    assert SECRET not in page.text


async def test_what_an_event_says_is_text(house: House) -> None:
    event = await Scores(house).record(
        type=EVIL, source=EVIL, user=EVIL, dedupe_key=EVIL, payload={EVIL: EVIL}
    )
    answer = await (await house.keyed("VIEWER")).get(f"{EVENTS}/{event}")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text


async def test_another_organization_does_not_see_an_event(house: House) -> None:
    await house.organization("acme")
    event = await Scores(house, orgs=["acme"]).record(org="acme")
    await read(await house.keyed("VIEWER", "acme"), f"{EVENTS}/{event}")
    page = await read(await house.keyed("OWNER"), f"{EVENTS}/{event}", 404)
    assert "score" not in page.text


async def test_an_event_that_no_projector_wants_says_what_to_do(house: House) -> None:
    stream = house.app.stream("lonely", "redis://localhost:1")
    [recorded] = await house.app.events().record(stream, [Event(type="greeting", dedupe_key="1")])
    page = await read(await house.keyed("VIEWER"), f"{EVENTS}/{recorded.id}")
    assert "No projector wanted this event" in page.text


async def test_the_run_of_a_projector_leads_to_its_event(house: House) -> None:
    scores = Scores(house)
    event = await scores.record()
    client = await house.keyed("VIEWER")
    page = await read(client, f"{EVENTS}/{event}")
    [run, *_] = [each for each in page.links if each.startswith("/app/admin/runs/")]
    page = await read(client, run)
    assert f"{EVENTS}/{event}" in page.links
    assert "/app/admin/streams/scores" in page.links


async def test_a_run_with_the_id_of_an_event_as_correlation_id_projects_nothing(house: House) -> None:
    """The application may pass it on; then the run is not one of the event."""
    event = await Scores(house).record()
    for correlation_id in (event, "scores", EVIL):
        run = await house.app.start("greet", correlation_id=correlation_id)
        page = await read(await house.keyed("VIEWER"), f"/app/admin/runs/{run.id}")
        assert f"{EVENTS}/{event}" not in page.links


async def test_a_dead_letter_of_a_projector_leads_to_its_event(house: House) -> None:
    scores = Scores(house)
    scores.is_broken = True
    event = await scores.record()
    await house.work()
    [letter] = (await house.app.failures().list()).lines
    page = await read(await house.keyed("VIEWER"), f"/app/admin/dlq/{letter.id}")
    assert f"{EVENTS}/{event}" in page.links


async def test_a_dead_letter_of_an_entry_shows_its_stream_and_message_id_g11(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    ingest = parts_of(house.app).entry_ingest(scores.stream)
    entry = StreamEntry("1700000000000-7", {b"type": b"score.changed", b"id": b"one"}, 1)
    await ingest.bury(entry, DeadCause(ValueError("the database was full"), 3))
    [letter] = (await house.app.failures().list()).lines
    page = await read(client, f"/app/admin/dlq/{letter.id}")
    assert "Stream scores Message ID 1700000000000-7" in page.text
    assert not [each for each in page.links if each.startswith(EVENTS + "/")]

    await house.app.failures().replay(letter.id)
    await house.work()
    [event] = await house.app.events().list()
    page = await read(client, f"/app/admin/dlq/{letter.id}")
    assert f"{EVENTS}/{event.id}" in page.links, "the replay has stored it"
