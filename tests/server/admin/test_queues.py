"""The page of queues: waiting work, workers, and pausing a queue (P10, W12, W13)."""

from __future__ import annotations

import json
from typing import Any

from tests.server.admin.reading import Element, Reading, read
from tests.server.house import House

from redrive.engine.queues import Depths, QueueView
from redrive.model.query import Count
from redrive.server.admin.infrastructure import OLD_SECONDS, QueueLine

PAGE, API = "/app/admin/queues", "/api/v1/queues"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def cells(page: Reading, label: str) -> list[str]:
    return [each.text for each in page.find("td", data_label=label)]


def titles(page: Reading) -> list[Element]:
    return page.find("a", class_="title")


async def test_depths_are_shown_and_link_to_the_runs(house: House) -> None:
    @house.app.task(queue="money/eu west")
    async def pay(_: Any = None) -> None:
        pass

    await house.organization("acme")
    await house.app.start_many("greet", range(3))
    await house.app.start(pay, 1, delay=86_400.0)
    await house.app.start(pay, 1, org="acme")
    home = await read(await house.keyed("VIEWER"), PAGE)
    assert [each.text for each in titles(home)] == ["default", "money/eu west"]
    assert cells(home, "Queued") == ["3", "1 0 own"]
    assert cells(home, "Waiting") == ["0", "1 1 own"]
    assert cells(home, "State") == ["No worker", "No worker"]
    assert titles(home)[1].attributes["href"] == "/app/admin/runs?q=queue:%22money%2Feu%20west%22"
    assert "/app/admin/runs?q=queue:%22money%2Feu%20west%22%20is:waiting" in home.links
    acme = await read(await house.keyed("OWNER", "acme"), PAGE)
    assert dict(zip([each.text for each in titles(acme)], cells(acme, "Queued"), strict=True)) == {
        "default": "0",
        "money/eu west": "1",
    }
    assert not any("own" in cell for cell in cells(acme, "Queued") + cells(acme, "Waiting"))


async def test_pausing_has_a_reason_and_can_be_undone(house: House) -> None:
    client = await house.keyed("ADMIN", name="operator")
    page = await read(client, PAGE)
    [form] = page.find("form", data_action=f"POST {API}/default/pause")
    undo = form.attributes["data-undo"].partition(" ")[2]
    assert (await client.post(f"{API}/default/pause", json={"reason": EVIL})).status_code == 200
    answer = await client.get(PAGE)
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    paused = Reading(answer.text)
    assert cells(paused, "State") == ["Paused"]
    assert "by key:operator" in paused.text
    [resume] = paused.find("button", data_action=f"POST {API}/default/resume")
    again = json.loads(resume.attributes["data-undo-body"])
    assert (await client.post(undo, json=json.loads(form.attributes["data-undo-body"]))).status_code == 200
    assert (await client.post(f"{API}/default/pause", json=again)).status_code == 200


async def test_without_the_permission_to_pause_there_is_no_button(house: House) -> None:
    await house.organization("acme")
    await house.app.queues(by="ana").pause("default", reason="a secret of home")
    for role, org in (("OWNER", "acme"), ("VIEWER", "default"), ("STAFF", "default")):
        page = await read(await house.keyed(role, org), PAGE)
        assert not [each for each in page.actions if API in each]
        assert cells(page, "State") == ["Paused"]
        assert ("a secret of home" in page.text) is (org == "default")


def test_highlighted_problems() -> None:
    def line(ready: int, age: float | None, workers: int, paused: bool = False) -> QueueLine:
        none = Count(0, False)
        depths = Depths(Count(ready, False), none, none, none, age)
        return QueueLine(
            QueueView("mail", paused, None, None, None, depths, None), depths, workers, "queue:mail"
        )

    assert line(1, 2.0, 0).unserved
    assert not line(0, None, 0).unserved
    assert not line(1, 2.0, 1).unserved
    assert not line(1, 2.0, 0, paused=True).unserved, "it is meant so"
    assert line(1, OLD_SECONDS + 1, 1).old
    assert not line(1, OLD_SECONDS, 1).old
