"""Bodies are strictly typed: a string is not a number, a number is neither a flag nor a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.house import House

LAX: list[tuple[str, str, Any]] = [
    ("POST", "/api/v1/keys", {"name": "x", "role": "ADMIN", "expires_in_seconds": "600"}),
    ("POST", "/api/v1/operations", {"query": "is:open", "canary": "5"}),
    ("POST", "/api/v1/operations", {"query": "is:open", "exclude_unsafe": "no"}),
    ("POST", "/api/v1/operations/{}/start", {"accept_drift": 1}),
    ("POST", "/api/v1/dead-letters/clear", {"queue": "dlq:default", "expect": False, "confirm": "clear"}),
    ("POST", "/api/v1/runs", {"work": "greet", "priority": True}),
    ("POST", "/api/v1/runs", {"work": "greet", "at": 1_893_456_000}),
    ("POST", "/api/v1/groups/{}/ignore", {"until": 1_893_456_000}),
    ("PATCH", "/api/v1/members/{}", {"active": 0}),
    ("GET", "/api/v1/audit?until=0", None),
]


@pytest.mark.parametrize(("method", "path", "body"), LAX)
async def test_values_of_another_type_are_rejected(
    small_house: House, method: str, path: str, body: Any
) -> None:
    """The server rejects it before it looks up any object."""
    client = await small_house.keyed("OWNER")
    answer = await client.request(method, path.format("nothing"), json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_whole_numbers_and_words_of_a_list_are_taken(small_house: House) -> None:
    client = await small_house.keyed("OWNER")
    key = {"name": "x", "role": "ADMIN", "scopes": ["read"], "expires_in_seconds": 600}
    assert (await client.post("/api/v1/keys", json=key)).status_code == 201
    run = {"work": "greet", "at": "2030-01-31T12:00:00Z"}
    assert (await client.post("/api/v1/runs", json=run)).status_code == 202
    plan = {"query": "is:open", "mode": "STEP_ONLY"}
    assert (await client.post("/api/v1/operations", json=plan)).status_code == 201
