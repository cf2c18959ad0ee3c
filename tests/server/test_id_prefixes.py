"""The first digits of an id name a run, a dead letter, a replay or a bulk replay, as in git."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.server.house import House

RUNS, LETTERS, OPERATIONS = "/api/v1/runs", "/api/v1/dead-letters", "/api/v1/operations"
PAGES = "/app/admin"


@pytest.fixture
async def admin(house: House) -> httpx.AsyncClient:
    return await house.keyed("ADMIN")


async def failed(house: House, admin: httpx.AsyncClient) -> tuple[str, str]:
    """Return the ids of a failed run and of its dead letter."""
    run = await house.app.start("charge", 7)
    await house.work()
    [letter] = (await admin.get(LETTERS)).json()["items"]
    return run.id, letter["id"]


async def get(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_unique_beginning_is_enough(house: House, admin: httpx.AsyncClient) -> None:
    run_id, letter_id = await failed(house, admin)
    for digits in (6, 8, 15, 31, 32):
        assert (await get(admin, f"{RUNS}/{run_id[:digits]}"))["id"] == run_id
        assert (await get(admin, f"{LETTERS}/{letter_id[:digits]}"))["id"] == letter_id
    assert (await get(admin, f"{RUNS}/{run_id[:9].upper()}/steps"))["items"][0]["name"] == "charge"
    planned = await admin.post(OPERATIONS, json={"ids": [letter_id[:12]]})
    assert planned.json()["plan"]["selected"] == 1
    operation_id = planned.json()["id"]
    assert (await get(admin, f"{OPERATIONS}/{operation_id[:7]}/report"))["operation"]["id"] == operation_id
    replay = (await admin.post(f"{LETTERS}/{letter_id[:10]}/replay")).json()
    assert (await get(admin, f"/api/v1/replays/{replay['id'][:15]}"))["dead_letter_id"] == letter_id


async def test_changes_take_a_beginning_too(house: House, admin: httpx.AsyncClient) -> None:
    run_id, letter_id = await failed(house, admin)
    for path, body in (
        (f"{LETTERS}/{letter_id[:8]}/assign", {"name": "ann"}),
        (f"{LETTERS}/assign", {"ids": [letter_id[:8]], "name": "ben"}),
        (f"{LETTERS}/tags", {"ids": [letter_id[:8]], "add": ["vip"]}),
        (f"{LETTERS}/resolve", {"ids": [letter_id[:8]]}),
        (f"{LETTERS}/reopen", {"ids": [letter_id[:8]]}),
        (f"{RUNS}/{run_id[:8]}/retry", {}),
    ):
        answer = await admin.post(path, json=body)
        assert answer.status_code in (200, 202), answer.text
    assert (await get(admin, f"{LETTERS}/{letter_id}"))["assignee"] == "ben"


async def test_an_ambiguous_beginning_lists_candidates(house: House, admin: httpx.AsyncClient) -> None:
    runs = await house.app.start_many("charge", range(7))
    beginning = runs[0].id[:9]
    answer = await admin.get(f"{RUNS}/{beginning}")
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "ambiguous_id"
    assert f"more than 5 runs start with '{beginning}'" in problem["detail"]
    newest = [run.id for run in runs[:1:-1]]
    assert [candidate["id"] for candidate in problem["candidates"]] == newest
    assert {candidate["what"] for candidate in problem["candidates"]} == {"charge"}
    assert all(candidate["at"].endswith("Z") for candidate in problem["candidates"])
    assert newest[0] in problem["detail"]
    page = await admin.get(f"{PAGES}/runs", params={"q": beginning})
    assert page.status_code == 422
    assert newest[0] in page.text
    assert (await get(admin, f"{RUNS}/{runs[3].id[:15]}"))["id"] == runs[3].id


async def test_other_text_is_not_found(house: House, admin: httpx.AsyncClient) -> None:
    run_id, letter_id = await failed(house, admin)
    for digits in (run_id[:5], "0" * 6, "f" * 31, f"{run_id}0", "zzzzzzzz", f"{run_id[:8]}%"):
        assert (await admin.get(f"{RUNS}/{digits}")).status_code == 404, digits
        assert (await admin.get(f"{LETTERS}/{digits}")).status_code == 404, digits
    assert (await admin.get(f"{LETTERS}/{run_id[:15]}")).status_code == 404
    assert (await admin.get(f"{RUNS}/{letter_id[:15]}")).status_code == 404


async def test_ids_of_other_organizations_neither_match_nor_collide(
    house: House, admin: httpx.AsyncClient
) -> None:
    await house.organization("acme")
    stranger = await house.keyed("OWNER", "acme")
    run_id, letter_id = await failed(house, admin)
    for path in (f"{RUNS}/{run_id[:8]}", f"{LETTERS}/{letter_id[:8]}", f"{PAGES}/runs/{run_id[:8]}"):
        assert (await stranger.get(path)).status_code == 404, path
    assert (await stranger.get(f"{PAGES}/runs", params={"q": run_id[:8]})).status_code == 422
    own = await house.app.start("charge", 8, org="acme")
    shared = own.id[: next(at for at, digit in enumerate(own.id) if digit != run_id[at])]
    if len(shared) >= 6:
        assert (await get(stranger, f"{RUNS}/{shared}"))["id"] == own.id
        assert (await get(admin, f"{RUNS}/{shared}"))["id"] == run_id


async def test_the_search_field_opens_the_page_of_an_id(house: House, admin: httpx.AsyncClient) -> None:
    run_id, letter_id = await failed(house, admin)
    group = (await get(admin, f"{LETTERS}/{letter_id}"))["fingerprint"]
    for page in ("runs", "dlq"):
        for text, address in (
            (run_id, f"/runs/{run_id}"),
            (run_id[:15], f"/runs/{run_id}"),
            (f" {letter_id[:15]}… ", f"/dlq/{letter_id}"),
            (group.removeprefix("v1:")[:8], f"/dlq/groups/{group}"),
        ):
            answer = await admin.get(f"{PAGES}/{page}", params={"q": text})
            assert answer.status_code == 303, answer.text
            assert answer.headers["location"].replace("%3A", ":") == PAGES + address
    assert (await admin.get(f"{PAGES}/dlq", params={"q": "0123456"})).status_code == 200


async def test_queries_take_a_beginning(house: House, admin: httpx.AsyncClient) -> None:
    run_id, letter_id = await failed(house, admin)
    for path, query, found in (
        (RUNS, f"id:{run_id[:8]}", run_id),
        (RUNS, f"is:failed id:{run_id[:15]}", run_id),
        (LETTERS, f"run:{run_id[:8]}", letter_id),
        (LETTERS, f"id:{letter_id[:12]}", letter_id),
        (LETTERS, f"-id:{'0' * 8}", letter_id),
    ):
        assert [item["id"] for item in (await get(admin, f"{path}?q={query}"))["items"]] == [found]
    assert (await get(admin, f"{RUNS}?q=id:000000"))["items"] == []
