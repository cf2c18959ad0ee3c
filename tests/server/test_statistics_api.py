"""Statistics over HTTP, under the names of M7."""

from __future__ import annotations

import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful

from redrive.parts import parts_of

NONE = dict.fromkeys(("pending", "retrying", "exhausted", "completed", "discarded", "archived"), 0)
SPELLINGS = ("/api/v1/statistics", "/api/v1/dead-letters/statistics", "/api/v1/workflow-dlq/statistics")


async def test_figures_cover_only_the_organization(house: House) -> None:
    """M7, W13."""
    await house.organization("acme")
    for org in ("default", "default", "acme"):
        letter = await house.dead_letter(org=org)
    async with truthful(await house.keyed("ADMIN"), house.api) as client:
        [first, *others] = [(await client.get(each)).json() for each in SPELLINGS]
        assert others == [first, first]
        assert (first["queue_size"], first["max_size"], first["utilization_percent"]) == (2, None, 0.0)
        assert first["status_breakdown"] == {**NONE, "pending": 2}
        assert first["error_categories"] == {"permanent": 2}
        assert first["retry_policies"] == {"never": 2}
        assert (first["is_processor_running"], first["retry_interval_seconds"]) == (False, 60.0)
        assert first["lifetime_stats"]["enqueued_total"] == 2
        await client.post("/api/v1/dead-letters/archive", json={"query": "is:open", "expect": 2})
        after = (await client.get(SPELLINGS[0])).json()
        assert (after["queue_size"], after["status_breakdown"]) == (0, {**NONE, "archived": 2})
        assert after["lifetime_stats"]["archived"] == 2
    async with truthful(await house.keyed("VIEWER", "acme"), house.api) as other:
        assert (await other.get(SPELLINGS[0])).json()["queue_size"] == 1
        assert (await other.get(f"/api/v1/dead-letters/{letter}")).status_code == 200


async def test_a_queue_is_looked_at_alone(house: House) -> None:
    await house.dead_letter()
    async with truthful(await house.keyed("VIEWER"), house.api) as client:
        sizes = {}
        for queue in ("default", "nothing", "dlq:mail", "a\x00b"):
            found = (await client.get(SPELLINGS[0], params={"queue": queue})).json()
            sizes[queue] = (found["queue_size"], found["max_size"])
        assert sizes == {
            "default": (1, None),
            "nothing": (0, None),
            "dlq:mail": (0, 10_000),
            "a\x00b": (0, None),
        }


@pytest.mark.parametrize(("state", "running"), [("running", True), ("stopped", False)])
async def test_a_processor_that_lives_is_running(house: House, state: str, running: bool) -> None:
    """M3: its state is visible, with its own interval."""
    await parts_of(house.app).store.redrives.heartbeat("one", "dlq:mail", state, 15.0, 0)
    async with truthful(await house.keyed("VIEWER"), house.api) as client:
        for queue, serves in ((None, running), ("dlq:mail", running), ("dlq:other", False)):
            found = (await client.get(SPELLINGS[0], params={"queue": queue} if queue else {})).json()
            interval = 15.0 if serves else 60.0
            assert (found["is_processor_running"], found["retry_interval_seconds"]) == (serves, interval)
