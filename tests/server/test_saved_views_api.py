"""Saved views over HTTP: shared by an organization, at most 100, and the audit records removals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful

from redrive.errors import RedriveError, TransitionError
from redrive.failures import saved_views

VIEWS = "/api/v1/saved-views"
MINE = {
    "name": "Needs a look",
    "page": "dlq",
    "query": "is:open assignee:me",
    "view": "flat",
    "sort": "oldest",
}


@pytest.fixture
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with truthful(await house.keyed("STAFF", name="ana"), house.api) as staff:
        yield staff


async def names(client: httpx.AsyncClient, **params: str) -> list[str]:
    return [each["name"] for each in (await client.get(VIEWS, params=params)).json()["items"]]


async def audited(house: House) -> list[tuple[str, ...]]:
    entries = (await house.app.failures(by="test").audit.list()).entries
    return [(each.action, *each.subjects) for each in entries if each.action.startswith("saved_view.")]


async def test_a_view_is_saved_found_and_removed(house: House, client: httpx.AsyncClient) -> None:
    saved = await client.post(VIEWS, json=MINE)
    assert saved.status_code == 201
    made = saved.json()
    assert MINE.items() <= made.items()
    assert made["created_by"] == "key:ana"
    await client.post(VIEWS, json={"name": "failed", "page": "runs", "query": "is:failed"})
    await client.post(VIEWS, json={"name": "a second", "page": "dlq"})
    assert await names(client) == ["a second", "Needs a look", "failed"]
    assert await names(client, page="dlq") == ["a second", "Needs a look"]
    assert await names(client, page="runs") == ["failed"]

    assert (await client.delete(f"{VIEWS}/{made['id']}")).status_code == 204
    assert await names(client, page="dlq") == ["a second"]
    assert (await client.delete(f"{VIEWS}/{made['id']}")).status_code == 404
    actions = await audited(house)
    assert sorted(action for action, *_ in actions) == ["saved_view.created"] * 3 + ["saved_view.removed"]
    assert ("saved_view.removed", made["id"]) in actions


async def test_the_audit_contains_the_removed_view(house: House, client: httpx.AsyncClient) -> None:
    made = (await client.post(VIEWS, json=MINE)).json()
    await client.delete(f"{VIEWS}/{made['id']}")
    entries = (await house.app.failures(by="test").audit.list(action="saved_view.removed")).entries
    [entry] = entries
    assert entry.actor == "key:ana"
    for word in MINE.values():
        assert word in entry.detail.values()


async def test_saving_the_same_view_again_returns_the_existing_one(
    house: House, client: httpx.AsyncClient
) -> None:
    first, second = [(await client.post(VIEWS, json=MINE)).json() for _ in range(2)]
    assert first == second
    assert len(await audited(house)) == 1
    other = await client.post(VIEWS, json={**MINE, "query": "is:live"})
    assert (other.status_code, other.json()["code"]) == (409, "exists")
    assert (await client.post(VIEWS, json={"name": MINE["name"], "page": "runs"})).status_code == 201


async def test_a_view_of_another_organization_does_not_exist(house: House, client: httpx.AsyncClient) -> None:
    made = (await client.post(VIEWS, json=MINE)).json()
    await house.organization("acme")
    async with await house.keyed("OWNER", "acme") as stranger:
        assert await names(stranger) == []
        assert (await stranger.delete(f"{VIEWS}/{made['id']}")).status_code == 404
        assert (await stranger.post(VIEWS, json=MINE)).status_code == 201
    assert await names(client) == [MINE["name"]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "  "},
        {"name": "x" * 61},
        {"name": "two\nlines"},
        {"name": 7},
        {"page": "breakers"},
        {"query": "is:opne"},
        {"query": "x" * 2001},
        {"query": "AKIAIOSFODNN7EXAMPLE"},
        {"view": "tiles"},
        {"view": "groups"},
        {"sort": "last_seen"},
        {"more": 1},
    ],
)
async def test_invalid_views_are_rejected(small_house: House, wrong: dict[str, Any]) -> None:
    async with truthful(await small_house.keyed("STAFF"), small_house.api) as client:
        reply = await client.post(VIEWS, json={**MINE, **wrong})
        assert reply.status_code == 422, reply.text
        assert await names(client) == []
        assert (await client.get(VIEWS, params={"page": "breakers"})).status_code == 422


async def test_a_name_is_kept_without_its_secrets(house: House, client: httpx.AsyncClient) -> None:
    made = (
        await client.post(VIEWS, json={**MINE, "name": "mail of ada@example.org password=hunter2"})
    ).json()
    assert "hunter2" not in made["name"]
    assert "hunter2" not in (await client.get(VIEWS)).text


async def test_readers_look_and_do_not_touch(small_house: House) -> None:
    async with await small_house.keyed("STAFF") as staff, await small_house.keyed("VIEWER") as viewer:
        made = (await staff.post(VIEWS, json=MINE)).json()
        assert await names(viewer) == [MINE["name"]]
        assert (await viewer.post(VIEWS, json={**MINE, "name": "x"})).status_code == 403
        assert (await viewer.delete(f"{VIEWS}/{made['id']}")).status_code == 403


async def test_there_are_never_more_than_the_limit_however_many_save_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 5)
    failures = house.app.failures(by="ana")

    async def save(number: int) -> RedriveError | None:
        try:
            await failures.views.create(f"view {number}", "runs")
        except TransitionError as error:
            return error
        return None

    refused = [each for each in await asyncio.gather(*map(save, range(12))) if each is not None]
    assert (len(await failures.views.list()), len(refused)) == (5, 7)
    assert "remove one first" in str(refused[0])
    assert len(await audited(house)) == 5
