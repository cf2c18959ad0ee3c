"""The list of events: what a row says, the query, and the pages."""

from __future__ import annotations

import pytest
from tests.server.admin.reading import Reading, read
from tests.server.admin.streamed import SECRET, Scores
from tests.server.house import House

EVENTS = "/app/admin/events"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def rows(page: Reading) -> list[str]:
    """The ids of the listed events, in order."""
    return [each.attributes["id"].removeprefix("event-") for each in page.find("tr", data_row="")]


async def test_a_row_says_what_happened_and_how_each_projector_has_fared(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    first = await scores.record(1)
    scores.is_broken = True
    await house.work()
    second = await scores.record(2, user="ana", source=None)
    page = await read(client, EVENTS)
    assert rows(page) == [second, first]
    newer, older = (each.text for each in page.find("tr", data_row=""))
    assert "score.changed score-2 qscore v2: queued session v1: queued ana – scores" in newer
    assert "score.changed score-1 qscore v2: succeeded session v1: dead letter user_123 quiz scores" in older
    assert "2 events, newest first" in page.text
    assert f"{EVENTS}/{first}" in page.links


async def test_the_query_selects_events(house: House) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    scores.is_broken = True
    failed = await scores.record(1)
    await house.work()
    other = await scores.record(2, type="quiz.started", user="ana")
    for query, found in {
        "is:failed": [failed],
        "is:failed projector:session": [failed],
        "is:failed projector:qscore": [],
        "is:live": [other],
        "type:quiz.started": [other],
        "user:ana": [other],
        "key:score-1": [failed],
        "stream:scores source:quiz": [other, failed],
    }.items():
        page = await read(client, f"{EVENTS}?q={query.replace(' ', '%20')}")
        assert rows(page) == found, query
        assert ("No matches" in page.text) is (not found)


async def test_a_wrong_query_is_explained(house: House) -> None:
    page = await read(await house.keyed("VIEWER"), f"{EVENTS}?q=tipe:a", 422)
    assert "did you mean 'type'" in page.text
    assert "An event must match all of them" in page.text


async def test_there_are_pages_of_events(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, client = Scores(house), await house.keyed("VIEWER")
    monkeypatch.setattr("redrive.server.admin.events.PAGE_SIZE", 2)
    recorded = [await scores.record(number) for number in range(3)]
    page = await read(client, EVENTS)
    assert rows(page) == recorded[:0:-1]
    [following] = page.find("a", rel="next")
    assert rows(await read(client, following.attributes["href"])) == recorded[:1]


async def test_the_list_shows_no_payload_and_only_text(house: House) -> None:
    await Scores(house).record(
        type=EVIL, source=EVIL, user=EVIL, dedupe_key=EVIL, payload={"password": SECRET}
    )
    answer = await (await house.keyed("VIEWER")).get(EVENTS)
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert SECRET not in answer.text


async def test_another_organization_does_not_see_the_events(house: House) -> None:
    await house.organization("acme")
    scores = Scores(house, orgs=["acme"])
    own, foreign = await scores.record(org="acme"), await scores.record()
    assert rows(await read(await house.keyed("OWNER", "acme"), EVENTS)) == [own]
    assert rows(await read(await house.keyed("OWNER"), EVENTS)) == [foreign]


async def test_without_events_the_page_says_how_there_come_to_be_some(house: House) -> None:
    client = await house.keyed("VIEWER")
    assert "How to declare a stream" in (await read(client, EVENTS)).text
    Scores(house)
    assert "as soon as a consumer stores the first entry" in (await read(client, EVENTS)).text
