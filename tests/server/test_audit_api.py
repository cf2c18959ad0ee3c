"""The audit over HTTP (W16, I14)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful

from redrive.model.audit import Action, NewEntry
from redrive.parts import parts_of

AUDIT, LETTERS = "/api/v1/audit", "/api/v1/dead-letters"
UNASKABLE: tuple[dict[str, Any], ...] = (
    {"since": "2020-01-01T00:00:00Z"},
    {"since": "2020-01-01T00:00:00Z", "until": "2021-01-03T00:00:00Z"},
    {"since": "2020-01-01T00:00:00"},
    {"until": "yesterday"},
    {"action": "dead_letter.eaten"},
    {"actor": ""},
    {"cursor": "-1"},
    {"cursor": "x"},
    {"size": 501},
    {"since": "9999-12-31T23:59:59Z", "until": "0001-01-01T00:00:00Z", "who": "x"},
)
FAR: tuple[dict[str, Any], ...] = (
    {"since": "9999-12-31T23:59:59Z"},
    {"until": "0001-01-01T00:00:00Z"},
    {"until": "9999-12-31T23:59:59Z"},
    {"since": "9999-12-31T23:59:59Z", "until": "0001-01-01T00:00:00Z"},
    {"since": "2020-01-01T00:00:00Z", "until": "2021-01-01T00:00:00Z"},
)


@pytest.fixture
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with truthful(await house.keyed("ADMIN", name="operator"), house.api) as admin:
        yield admin


async def test_entries_are_found_by_action_actor_and_subject(house: House, client: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    await client.post(f"{LETTERS}/{letter}/resolve", json={"reason": "paid"})
    [entry] = (await client.get(AUDIT, params={"action": "dead_letter.resolved"})).json()["items"]
    assert (entry["actor"], entry["subjects"]) == ("key:operator", [letter])
    assert entry["detail"] == {"reason": "paid", "before": {"OPEN": 1}}
    for found in ("actor=key:operator", f"subject={letter}&size=1"):
        assert (await client.get(f"{AUDIT}?{found}")).json()["items"] == [entry]
    assert (await client.get(AUDIT, params={"actor": "nobody"})).json()["items"] == []
    assert (await client.get(AUDIT, params={"subject": "a\x00b"})).json()["items"] == []


async def test_entries_are_found_by_time_page_by_page(house: House, client: httpx.AsyncClient) -> None:
    for number in range(3):
        await house.dead_letter(number)
    moved = f"{AUDIT}?action=dead_letter.moved&size=2"
    first = (await client.get(moved)).json()
    rest = (await client.get(f"{moved}&cursor={first['next_cursor']}")).json()
    sequences = [each["sequence"] for each in first["items"] + rest["items"]]
    assert sequences == sorted(sequences, reverse=True)
    assert (len(sequences), rest["next_cursor"]) == (3, None)
    now = datetime.now(UTC)
    later, earlier = (now + timedelta(minutes=1)).isoformat(), (now - timedelta(hours=1)).isoformat()
    assert len((await client.get(AUDIT, params={"since": earlier})).json()["items"]) >= 3
    assert (await client.get(AUDIT, params={"since": later})).json()["items"] == []
    assert (await client.get(AUDIT, params={"until": earlier})).json()["items"] == []


async def test_a_chain_is_verified_by_one_at_a_time(small_house: House) -> None:
    """A verification reads the whole chain, and every reader may request one."""
    await small_house.organization("acme")
    viewer, other = await small_house.keyed("VIEWER"), await small_house.keyed("VIEWER", "acme")
    with small_house.api.state.site.verifying.slot("default"):
        assert (await viewer.post(f"{AUDIT}/verify")).json()["code"] == "busy"
        assert (await other.post(f"{AUDIT}/verify")).status_code == 200
    assert (await viewer.post(f"{AUDIT}/verify")).status_code == 200


async def test_invalid_parameters_are_rejected(small_house: House) -> None:
    """A time range has at most 366 days, unless the settings say otherwise."""
    async with truthful(await small_house.keyed("VIEWER"), small_house.api) as viewer:
        for parameters in UNASKABLE:
            assert (await viewer.get(AUDIT, params=parameters)).status_code == 422, parameters


async def test_far_moments_find_nothing(house: House) -> None:
    async with truthful(await house.keyed("VIEWER"), house.api) as viewer:
        for parameters in FAR:
            answer = await viewer.get(AUDIT, params=parameters)
            assert (answer.status_code, answer.json()["items"]) == (200, []), parameters


async def test_the_chain_is_verified_with_a_head_that_was_kept(
    house: House, client: httpx.AsyncClient
) -> None:
    """I14."""
    await house.dead_letter()
    kept = (await client.get(f"{AUDIT}/head")).json()
    await house.dead_letter()
    whole = (await client.post(f"{AUDIT}/verify", json={"head": kept["text"]})).json()
    assert (whole["sound"], whole["faults"]) == (True, [])
    assert whole["checked"] == whole["head"]["sequence"] > kept["sequence"]
    forged = f"{kept['sequence']}:{'0' * 64}:default"
    broken = (await client.post(f"{AUDIT}/verify", json={"head": forged})).json()
    assert (broken["sound"], broken["found"]) == (False, len(broken["faults"]))
    assert (await client.post(f"{AUDIT}/verify")).json()["sound"]
    for head in ("nonsense", "", "1:x", "x" * 501):
        assert (await client.post(f"{AUDIT}/verify", json={"head": head})).status_code == 422


async def test_each_organization_has_its_own(house: House, client: httpx.AsyncClient) -> None:
    """W13, I8."""
    await house.organization("acme")
    entry = NewEntry("acme", "CANARY", Action.QUEUE_CLEARED, ("CANARY",), {"reason": "CANARY"})
    async with parts_of(house.app).database.transaction() as session:
        await parts_of(house.app).store.audit.append(session, [entry])
    answers = [await client.get(AUDIT), await client.get(AUDIT, params={"actor": "CANARY"})]
    answers += [await client.get(f"{AUDIT}/head"), await client.post(f"{AUDIT}/verify")]
    assert {each.status_code for each in answers} == {200}
    assert not any("CANARY" in str(each.json().get("items", "")) for each in answers)
    assert (await client.get(f"{AUDIT}/head")).json()["org"] == "default"
