"""The stream of events: its content, its readers, and when it ends (W13, I8, I9)."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.server.event_stream import EVENTS, bearing, listening
from tests.server.house import House, new_app, served

from redrive.failures import change_stream as changes
from redrive.parts import parts_of
from redrive.server.api.reference import document
from redrive.server.limits import StreamLimits

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
PASSWORD = "a horse, a horse, my kingdom"


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll for changes and send heartbeats many times a second."""
    monkeypatch.setattr(changes, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(changes, "BEAT_SECONDS", 0.05)


@pytest.mark.usefixtures("quickly")
async def test_events_have_no_payloads_and_reasons(house: House) -> None:
    """I9."""
    key = await house.key("VIEWER")
    admin = await house.keyed("ADMIN")
    async with listening(house, bearing(key)) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        first = await stream.next()
        assert first is not None
        assert (first.kind, first.data["dead_letters"]) == ("counters", {})
        letter = await house.dead_letter({"card": SECRET, "order": "payload-canary"})
        entry = await stream.next("entry")
        assert entry is not None
        assert (entry.data["action"], entry.data["subjects"]) == ("dead_letter.moved", [letter])
        assert (entry.id, entry.data["number"]) == (entry.data["sequence"], 1)
        counters = await stream.next("counters")
        assert counters is not None
        assert counters.data["dead_letters"] == {"OPEN": 1}
        await admin.post(f"/api/v1/dead-letters/{letter}/resolve", json={"reason": "reason-canary"})
        resolved = await stream.next("entry")
        assert resolved is not None
        assert resolved.data["action"] == "dead_letter.resolved"
        while (last := await stream.next("counters")) and last.data["dead_letters"] != {"RESOLVED": 1}:
            pass
        for secret in (SECRET, "canary", "operator"):
            assert secret.encode() not in stream.everything


@pytest.mark.usefixtures("quickly")
async def test_no_event_of_another_organization_is_sent(house: House) -> None:
    """W13, I8."""
    await house.organization("acme")
    key = await house.key("OWNER", "acme")
    async with listening(house, bearing(key)) as stream:
        theirs = await house.dead_letter()
        own = await house.dead_letter(org="acme")
        entry = await stream.next("entry")
        assert entry is not None
        assert entry.data["subjects"] == [own]
        assert theirs.encode() not in stream.everything


@pytest.mark.usefixtures("quickly")
async def test_a_listener_continues_where_it_was(house: House) -> None:
    key = await house.key("VIEWER")
    letters = [await house.dead_letter(number) for number in range(3)]
    head = (await house.app.failures().audit.head()).sequence
    for headers, query in (
        (bearing(key, **{"Last-Event-ID": str(head - 2)}), ""),
        (bearing(key), f"after={head - 2}"),
        (bearing(key, **{"Last-Event-ID": str(head - 2)}), "after=0"),
    ):
        async with listening(house, headers, query) as stream:
            told = [await stream.next("entry") for _ in range(2)]
            assert [each and each.data["subjects"] for each in told] == [[each] for each in letters[1:]]
            assert [each and each.id for each in told] == [head - 1, head]


@pytest.mark.usefixtures("quickly")
async def test_a_listener_that_was_away_too_long_starts_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "FAR_BEHIND", 1)
    key = await house.key("VIEWER")
    for number in range(3):
        await house.dead_letter(number)
    head = (await house.app.failures().audit.head()).sequence
    for place in (0, 10**15):
        async with listening(house, bearing(key), f"after={place}") as stream:
            reset = await stream.next("reset")
            assert reset is not None
            assert reset.id == head


@pytest.mark.usefixtures("quickly")
async def test_there_are_signs_of_life(small_house: House) -> None:
    async with listening(small_house, bearing(await small_house.key())) as stream:
        while (event := await stream.next()) and event.kind:
            pass
        assert event is not None
        assert event.text == ": beat"


@pytest.mark.usefixtures("quickly")
async def test_a_revoked_key_receives_no_more_events(house: House) -> None:
    owner = await house.keyed("OWNER")
    made = (await owner.post("/api/v1/keys", json={"name": "ears", "role": "VIEWER"})).json()
    async with listening(house, bearing(made["text"])) as stream:
        assert await stream.next() is not None
        assert (await owner.delete(f"/api/v1/keys/{made['key']['id']}")).status_code == 204
        letter = await house.dead_letter()
        await stream.end()
        assert letter.encode() not in stream.everything
    assert house.api.state.site.streams.number == 0


@pytest.mark.usefixtures("quickly")
async def test_a_session_that_switches_organization_receives_no_more_events_of_the_old_one(
    house: House,
) -> None:
    await house.organization("acme")
    await house.member("olga", PASSWORD)
    browser = await house.signed_in("olga", PASSWORD)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    async with listening(house, {"Cookie": cookies}) as stream:
        assert await stream.next() is not None
        entered = await browser.put("/api/v1/session/organization", json={"name": "acme"})
        assert entered.status_code == 200
        letter = await house.dead_letter()
        await stream.end()
        assert letter.encode() not in stream.everything


@pytest.mark.usefixtures("quickly")
async def test_a_caller_who_may_no_longer_read_receives_no_more_events(house: House) -> None:
    await house.member("ana", PASSWORD, "STAFF")
    browser = await house.signed_in("ana", PASSWORD)
    owner = await house.keyed("OWNER")
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    async with listening(house, {"Cookie": cookies}) as stream:
        assert await stream.next() is not None
        assert (await owner.delete("/api/v1/members/ana")).status_code == 204
        await stream.end()


async def test_it_ends_when_the_server_stops(small_house: House) -> None:
    async with listening(small_house, bearing(await small_house.key())) as stream:
        assert await stream.next() is not None
        small_house.api.state.site.closing.set()
        assert await stream.next() is None


async def test_it_ends_when_the_client_has_gone(small_house: House) -> None:
    async with listening(small_house, bearing(await small_house.key())) as stream:
        assert await stream.next() is not None
        assert parts_of(small_house.app).changes.watched == {"default"}
        stream.leave()
        assert await stream.next() is None
    assert parts_of(small_house.app).changes.watched == frozenset()


@pytest.mark.usefixtures("quickly")
async def test_a_client_that_does_not_read_is_disconnected(small_house: House) -> None:
    site = small_house.api.state.site
    site.streams.write_timeout = 0.05
    async with listening(small_house, bearing(await small_house.key())) as stream:
        assert await stream.next() is not None
        stream.reads = False
        await stream.end()
    assert site.streams.number == 0


async def test_streams_are_limited_per_caller_and_in_total(small_house: House) -> None:
    await small_house.organization("acme")
    site = small_house.api.state.site
    site.streams = StreamLimits(4, per_caller=2)
    keys = [await small_house.key() for _ in range(3)]
    acme = [await small_house.key("OWNER", "acme") for _ in range(3)]
    async with AsyncExitStack() as stack:

        async def opened(key: str) -> tuple[int, str]:
            stream = await stack.enter_async_context(listening(small_house, bearing(key)))
            return stream.status, "" if stream.status == 200 else (await stream.body())["code"]

        assert [await opened(keys[0]) for _ in range(3)] == [(200, ""), (200, ""), (429, "too_many_streams")]
        assert [await opened(each) for each in acme] == [(200, ""), (200, ""), (429, "too_many_streams")]
        assert await opened(keys[1]) == (503, "no_stream_left")
        assert site.streams.number == 4
    assert site.streams.number == 0
    async with listening(small_house, bearing(keys[0])) as stream:
        assert stream.status == 200


async def test_as_many_as_the_settings_say() -> None:
    async with served(new_app("sqlite://:memory:", server_streams=1)) as house:
        key = await house.key()
        async with listening(house, bearing(key)), listening(house, bearing(key)) as second:
            assert (second.status, second.headers["retry-after"]) == (503, "15")


async def test_a_place_that_is_none_is_refused(small_house: House) -> None:
    client = await small_house.keyed()
    for query in ("after=-1", "after=x", f"after={2**63}", "since=1"):
        assert (await client.get(f"{EVENTS}?{query}")).status_code == 422, query
    for text in ("x", "-1", "1" * 19, "1;2"):
        assert (await client.get(EVENTS, headers={"Last-Event-ID": text})).status_code == 422, text
    assert (await small_house.client().get(EVENTS)).status_code == 401
    starter = await small_house.keyed("ADMIN", scopes=["start"])
    assert (await starter.get(EVENTS)).status_code == 403


async def test_it_is_documented_as_an_event_stream(small_house: House) -> None:
    told = document(small_house.api)["paths"][EVENTS]["get"]
    assert list(told["responses"]["200"]["content"]) == ["text/event-stream"]
    assert [each["name"] for each in told["parameters"]] == ["after", "org", "Last-Event-ID"]
