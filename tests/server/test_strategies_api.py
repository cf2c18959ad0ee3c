"""Which failures become dead letters, over HTTP and on the page of settings (M5, issue 21 point 18)."""

from __future__ import annotations

from typing import Any

import httpx
from tests.server.admin.reading import read
from tests.server.house import House
from tests.server.openapi_check import truthful

from redrive.model.run import RunState
from redrive.parts import parts_of

STRATEGIES = "/api/v1/strategies"
PAGE = "/app/admin/settings?section=dead-letters"


async def listed(client: httpx.AsyncClient) -> list[tuple[Any, ...]]:
    items = (await client.get(STRATEGIES)).json()["items"]
    return [(item["queue"], item["strategy"], item["changed_by"], item["reason"]) for item in items]


async def test_an_owner_changes_the_strategy_of_the_organization_and_of_a_queue(house: House) -> None:
    async with truthful(await house.keyed("OWNER", name="ana"), house.api) as owner:
        assert await listed(owner) == [(None, "automatic", None, None)]
        changed = await owner.put(STRATEGIES, json={"strategy": "selective", "reason": "noise"})
        assert (changed.status_code, changed.json()["strategy"]) == (200, "selective")
        await owner.put(STRATEGIES, json={"strategy": "manual", "queue": "dlq:mail"})
        assert await listed(owner) == [
            (None, "selective", "key:ana", "noise"),
            ("dlq:mail", "manual", "key:ana", None),
        ]
        reset = await owner.put(STRATEGIES, json={"strategy": None, "queue": "dlq:mail"})
        assert reset.json()["strategy"] == "selective"
        assert await listed(owner) == [(None, "selective", "key:ana", "noise")]
    entries = (await house.app.failures().audit.list()).entries
    changes = [entry for entry in entries if entry.action.endswith("strategy_changed")]
    assert [(entry.actor, entry.action) for entry in changes] == [
        ("key:ana", "queue.strategy_changed"),
        ("key:ana", "queue.strategy_changed"),
        ("key:ana", "organization.strategy_changed"),
    ]


async def test_a_worker_follows_a_change_through_the_api(house: House) -> None:
    @house.app.task(max_attempts=1)
    async def fail() -> None:
        raise ValueError("wrong")

    owner = await house.keyed("OWNER")
    await owner.put(STRATEGIES, json={"strategy": "selective"})
    run = await house.app.start("fail")
    await parts_of(house.app).worker_in_test().work_off()
    assert await run.state() is RunState.FAILED


async def test_only_owners_change_it_and_every_organization_has_its_own(house: House) -> None:
    await house.organization("acme")
    admin = await house.keyed("ADMIN")
    assert (await admin.put(STRATEGIES, json={"strategy": "disabled"})).status_code == 403
    owner = await house.keyed("OWNER", "acme")
    assert (await owner.put(STRATEGIES, json={"strategy": "disabled"})).status_code == 200
    assert [line[:2] for line in await listed(owner)] == [(None, "disabled")]
    assert await listed(admin) == [(None, "automatic", None, None)]


async def test_wrong_strategies_and_unknown_queues_are_refused(house: House) -> None:
    async with truthful(await house.keyed("OWNER"), house.api) as owner:
        for body in ({"strategy": "some"}, {}, {"strategy": "manual", "queue": ""}):
            assert (await owner.put(STRATEGIES, json=body)).status_code == 422
        mistyped = await owner.put(STRATEGIES, json={"strategy": "manual", "queue": "defualt"})
        assert mistyped.status_code == 404
        assert "there is no queue 'defualt'" in mistyped.text
        assert (
            await owner.put(STRATEGIES, json={"strategy": "manual", "queue": "default"})
        ).status_code == 200
    await house.app.failures().strategies.change("manual", queue="gone")
    reset = await (await house.keyed("OWNER")).put(STRATEGIES, json={"strategy": None, "queue": "gone"})
    assert reset.status_code == 200


async def test_the_page_shows_strategies_to_all_and_changes_them_for_owners(house: House) -> None:
    await house.app.failures(by="ana").strategies.change("manual", queue="dlq:mail", reason="until Monday")
    seen = await read(await house.keyed("VIEWER"), PAGE)
    for text in ("All queues not listed below", "from the settings", "dlq:mail", "by ana", "until Monday"):
        assert text in seen.text
    assert not [action for action in seen.actions if STRATEGIES in action]
    page = await read(await house.keyed("OWNER"), PAGE)
    assert page.actions.count(f"PUT {STRATEGIES}") == 2
