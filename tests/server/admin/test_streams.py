"""The pages of streams: what each does, what prevents it from being read, and its projectors."""

from __future__ import annotations

from tests.server.admin.reading import Reading, read
from tests.server.admin.streamed import Scores
from tests.server.house import House

from redrive.events import StreamEntry
from redrive.events.ingest import DeadCause
from redrive.model.fact import fact
from redrive.model.stream_condition import BEHIND_SECONDS
from redrive.parts import parts_of

STREAMS = "/app/admin/streams"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def cells(page: Reading, label: str) -> list[str]:
    return [each.text for each in page.find("td", data_label=label)]


async def test_the_list_shows_the_figures_of_each_stream(house: House) -> None:
    scores = Scores(house)
    now = parts_of(house.app).clock.now()
    await scores.report(lag=1_234, pending=7, oldest_at=now - 60, rate=2.5)
    await scores.lose("5-0", "9-0")
    page = await read(await house.keyed("VIEWER"), STREAMS)
    assert cells(page, "State") == ["Reading"]
    assert cells(page, "Lag") == ["1,234"]
    assert cells(page, "Pending") == ["7"]
    assert cells(page, "Oldest entry")[0].startswith("1 min")
    assert cells(page, "Rate") == ["2.5 per second"]
    assert cells(page, "Gaps") == ["1"]
    assert f"{STREAMS}/scores" in page.links


async def test_a_declared_stream_without_a_consumer_says_how_to_start_one(house: House) -> None:
    Scores(house)
    page = await read(await house.keyed("VIEWER"), STREAMS)
    assert cells(page, "State") == ["No consumer yet"]
    assert "redrive stream consume module:app" in page.text


async def test_without_a_stream_the_page_says_how_to_declare_one(house: House) -> None:
    page = await read(await house.keyed("VIEWER"), STREAMS)
    assert "No streams declared" in page.text
    assert "redrive worker shop:app --streams" in page.text


async def test_a_stream_that_cannot_be_read_says_why(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    await scores.report(pending=None, last_error=fact("redis_unreachable", error="connection refused"))
    for path in (STREAMS, f"{STREAMS}/scores"):
        page = await read(client, path)
        assert "Can't read" in page.text
        assert "Redis can't be reached (connection refused)" in page.text


async def test_back_pressure_names_the_numbers(house: House) -> None:
    scores = Scores(house)
    await scores.report(held_back=fact("stream_backlog", queued=12_000, max_queued=10_000))
    page = await read(await house.keyed("VIEWER"), f"{STREAMS}/scores")
    assert "Waiting" in page.text
    assert "12,000 runs of projectors are queued, and max_queued is 10,000" in page.text


async def test_the_page_of_a_stream_shows_its_projectors_with_their_runs(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    await scores.record(1)
    page = await read(client, f"{STREAMS}/scores")
    assert cells(page, "Unfinished") == ["1", "1"]
    assert cells(page, "Event types") == ["score.*", "every type"]
    scores.is_broken = True
    await house.work()
    page = await read(client, f"{STREAMS}/scores")
    assert cells(page, "Unfinished") == ["0", "0"]
    assert cells(page, "Need you") == ["0", "1"]
    [letters] = [each for each in page.links if "/dlq?q=" in each]
    assert "session" in (await read(client, letters)).text


async def test_gaps_are_listed_with_their_ids(house: House) -> None:
    scores = Scores(house)
    await scores.report()
    await scores.lose("5-0", "9-0")
    page = await read(await house.keyed("VIEWER"), f"{STREAMS}/scores")
    assert cells(page, "Entries after") == ["5-0"]
    assert cells(page, "and before") == ["9-0"]


async def test_entries_that_could_not_be_stored_need_attention_g10(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    ingest = parts_of(house.app).entry_ingest(scores.stream)
    await scores.report()
    await ingest.bury(StreamEntry("5-0", {b"a": b"b"}, 1), DeadCause(ValueError("no type"), 3))
    page = await read(client, STREAMS)
    assert cells(page, "Dead entries") == ["1"]
    [letters] = [each for each in page.links if "/dlq?q=" in each]
    assert "scores: store entry" in (await read(client, letters)).text
    assert "1 entry could not be stored" in (await read(client, f"{STREAMS}/scores")).text


async def test_another_organization_does_not_see_a_stream(house: House) -> None:
    await house.organization("acme")
    await Scores(house).report()
    client = await house.keyed("OWNER", "acme")
    assert "scores" not in (await read(client, STREAMS)).text
    await read(client, f"{STREAMS}/scores", 404)


async def test_who_may_not_pause_sees_no_button(house: House) -> None:
    await Scores(house).report()
    for role in ("VIEWER", "STAFF"):
        for path in (STREAMS, f"{STREAMS}/scores"):
            assert not [
                each for each in (await read(await house.keyed(role), path)).actions if "streams" in each
            ]
    page = await read(await house.keyed("ADMIN"), STREAMS)
    assert "POST /api/v1/streams/scores/pause" in page.actions


async def test_the_overview_asks_for_attention_for_streams_that_are_not_read(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    await scores.report(lag=3)
    assert "Stream scores" not in (await read(client, "/app/admin")).text
    await scores.report(pending=None, last_error=fact("redis_wrong_password"))
    page = await read(client, "/app/admin")
    assert "Stream scores: can't read. Redis rejects the user name or password" in page.text
    assert "but work is blocked" in page.text
    await scores.report(oldest_at=parts_of(house.app).clock.now() - BEHIND_SECONDS - 1, lag=1_234)
    assert "Stream scores: behind, 1,234 entries to read" in (await read(client, "/app/admin")).text


async def test_pausing_a_stream_can_be_undone(house: House) -> None:
    await Scores(house).report()
    client = await house.keyed("ADMIN", name="operator")
    page = await read(client, STREAMS)
    [form] = page.find("form", data_action="POST /api/v1/streams/scores/pause")
    assert (await client.post("/api/v1/streams/scores/pause", json={"reason": EVIL})).status_code == 200
    paused = await read(client, STREAMS)
    assert cells(paused, "State") == ["Paused"]
    assert "by key:operator" in paused.text
    assert "POST /api/v1/streams/scores/resume" in paused.actions
    assert (await client.post(form.attributes["data-undo"].partition(" ")[2], json={})).status_code == 200
    assert cells(await read(client, STREAMS), "State") == ["Reading"]


async def test_a_stream_of_another_organization_is_shown_for_its_events_only(house: House) -> None:
    await house.organization("acme")
    scores = Scores(house, orgs=["acme"])
    await scores.report(lag=77)
    await scores.record(org="acme")
    client = await house.keyed("OWNER", "acme")
    for path in (STREAMS, f"{STREAMS}/scores"):
        page = await read(client, path)
        assert "Another organization consumes it." in page.text
        assert "77" not in page.text
        assert not [each for each in page.actions if "streams" in each]
