"""The page of an event: what it says, how its projectors have fared, and where it leads (G11, G13)."""

from __future__ import annotations

from tests.server.admin.reading import Reading, read
from tests.server.admin.streamed import SECRET, Scores
from tests.server.house import House

from redrive.events import Event, StreamEntry
from redrive.events.ingest import DeadCause
from redrive.parts import parts_of

EVENTS, API = "/app/admin/events", "/api/v1/stored-events"
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


async def test_an_event_is_replayed_through_the_chosen_projectors_g12(house: House) -> None:
    scores = Scores(house)
    scores.is_broken = True
    event = await scores.record()
    await house.work()
    client = await house.keyed("ADMIN")
    page = await read(client, f"{EVENTS}/{event}")
    [form] = page.find("form", data_action=f"POST {API}/{event}/replay")
    choices = page.find("input", name="projectors", data_type="item")
    assert {each.attributes["value"]: "checked" in each.attributes for each in choices} == {
        "qscore": False,
        "session": True,
    }
    assert "session v1 continues its failed run" in form.text
    assert "qscore v2 executes it again in a new run, with the same idempotency key" in form.text

    scores.is_broken = False
    answer = await client.post(f"{API}/{event}/replay", json={"projectors": ["session"]})
    assert answer.status_code == 202
    await house.work()
    page = await read(client, f"{EVENTS}/{event}")
    assert [text.split(" ")[2] for text in rows(page)] == ["Succeeded", "Succeeded"]
    assert "has failed with this event" not in page.text


async def test_while_projectors_work_there_is_nothing_to_replay(house: House) -> None:
    event = await Scores(house).record()
    page = await read(await house.keyed("ADMIN"), f"{EVENTS}/{event}")
    [button] = [each for each in page.find("button", disabled="") if each.text == "Replay…"]
    assert button.attributes["title"] == "Projectors are still at work"
    assert not [each for each in page.actions if API in each]


async def test_who_may_not_replay_sees_no_button(house: House) -> None:
    event = await Scores(house).record()
    await house.work()
    for role in ("VIEWER", "STAFF"):
        page = await read(await house.keyed(role), f"{EVENTS}/{event}")
        assert not [each for each in page.actions if API in each]
        assert "Replay" not in [each.text for each in page.find("summary")]


async def test_a_projector_that_was_added_later_can_be_executed(house: House) -> None:
    scores, client = Scores(house), await house.keyed("ADMIN")
    event = await scores.record()
    await house.work()

    @scores.stream.projector("badges")
    async def badges(event: Event) -> None:
        pass

    page = await read(client, f"{EVENTS}/{event}")
    assert "badges v1 Not executed" in page.text
    assert "badges v1 executes it for the first time" in page.text


async def test_a_rebuild_in_progress_is_shown(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    event = await scores.record()
    await house.app.events(by="ana").rebuilds.start("qscore", reason="new formula")
    page = await read(client, f"{EVENTS}/{event}")
    assert "A rebuild of qscore v2 executes it for every event of this stream again. Running" in page.text
    assert "0 of 1 event read" in page.text
    stream = await read(client, "/app/admin/streams/scores")
    assert "new formula" in stream.text
    assert not [each for each in stream.actions if "rebuilds" in each]
    admin = await read(await house.keyed("ADMIN"), "/app/admin/streams/scores")
    [pause] = [each for each in admin.actions if each.endswith("/pause") and "rebuilds" in each]
    assert (await (await house.keyed("ADMIN")).post(pause.partition(" ")[2])).status_code == 200


async def test_the_start_of_an_id_is_enough(house: House) -> None:
    event = await Scores(house).record()
    client = await house.keyed("VIEWER")
    await read(client, f"{EVENTS}/{event[:15]}")
    answer = await client.get(EVENTS, params={"q": event[:15]})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{EVENTS}/{event}")


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
