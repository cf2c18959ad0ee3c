"""The overview over HTTP: for the caller's organization and every reader in it."""

from __future__ import annotations

import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful

PATH = "/api/v1/overview"


async def test_it_has_the_numbers_of_the_organization(house: House) -> None:
    """W13."""
    await house.organization("acme")
    first = await house.dead_letter()
    second = await house.dead_letter()
    await house.dead_letter(org="acme")
    await house.app.start("greet")
    await house.work()
    async with truthful(await house.keyed("ADMIN"), house.api) as client:
        await client.post("/api/v1/dead-letters/resolve", json={"ids": [second], "reason": "done"})
        seen = (await client.get(PATH)).json()
    assert (seen["span"], seen["seconds"], len(seen["dead_letters"]["new"])) == ("24h", 1800.0, 48)
    assert seen["needs_you"] == {"open": 1, "exhausted": 0, "total": 1}
    assert seen["heals_itself"]["total"] == {"number": 0, "capped": False}
    assert (seen["oldest"]["id"], seen["oldest"]["title"]) == (
        first,
        "the card of 7 was declined",
    )
    assert [sum(seen["dead_letters"][name]) for name in ("new", "closed")] == [2, 1]
    assert seen["replays"] == {"succeeded": 0, "failed": 0, "rate": None}
    ended = {state: sum(numbers) for state, numbers in seen["runs"].items()}
    assert ended == {"SUCCESS": 1, "DLQ_PENDING": 2, "FAILED": 0, "PARTIAL": 0, "CANCELLED": 0}
    async with truthful(await house.keyed("VIEWER", "acme"), house.api) as other:
        assert (await other.get(PATH)).json()["needs_you"]["total"] == 1


async def test_an_empty_organization_has_zeros(house: House) -> None:
    async with truthful(await house.keyed("VIEWER"), house.api) as client:
        seen = (await client.get(PATH, params={"span": "1h"})).json()
    assert (seen["oldest"], seen["needs_you"]["total"]) == (None, 0)
    assert seen["dead_letters"] == {"new": [0] * 12, "closed": [0] * 12}


@pytest.mark.parametrize(("span", "status"), [("6h", 200), ("7d", 200), ("2h", 422), ("", 422)])
async def test_only_some_spans_are_known(small_house: House, span: str, status: int) -> None:
    async with truthful(await small_house.keyed("VIEWER"), small_house.api) as client:
        assert (await client.get(PATH, params={"span": span})).status_code == status
