"""The page of breakers: states, windows, held work, and who may change them (P4, W12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.admin.reading import read
from tests.server.house import House

from redrive.parts import parts_of
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.description import describe_closing, describe_opening

PAGE, API = "/app/admin/breakers", "/api/v1/breakers"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            BreakerPolicy(),
            "Opens when at least 50% of the last 20 calls, "
            "or of the calls in the last 2 min (at least 5), fail.",
        ),
        (
            BreakerPolicy(window_calls=6, minimum_calls=4),
            "Opens when at least 50% of the last 6 calls (at least 4), "
            "or of the calls in the last 2 min (at least 4), fail.",
        ),
        (
            BreakerPolicy(window_calls=None, failure_rate=0.25, minimum_calls=1),
            "Opens when at least 25% of the calls in the last 2 min (at least 1) fail.",
        ),
        (
            BreakerPolicy(window_seconds=None, slow_seconds=5.0),
            "Opens when at least 50% of the last 20 calls fail, or at least 50% take 5 s or longer.",
        ),
    ],
)
def test_a_policy_in_words(policy: BreakerPolicy, words: str) -> None:
    assert describe_opening(policy) == words
    assert describe_closing(policy) == "Probed after 30 s; closes after 3 successful probes."


async def test_an_open_breaker_shows_held_work_and_its_next_probe(house: House) -> None:
    house.app.breaker("bank", BreakerPolicy(window_calls=4, minimum_calls=4, cool_down=300.0))
    house.app.breaker("api")

    @house.app.task(breaker="bank", max_attempts=1)
    async def pay(_: Any = None) -> None:
        raise ConnectionError("refused")

    worker = parts_of(house.app).worker_in_test()
    await house.app.start_many(pay, range(4))
    await worker.work_off()
    await house.app.start_many(pay, range(3))
    await worker.work_off()
    page = await read(await house.keyed("VIEWER"), PAGE)
    names = [each.text for each in page.find("span", class_="title")]
    assert names == ["bank", "api"], "those that fail come first"
    assert "4 of 4 failed (100%)" in page.text
    assert "Next probe" in page.text
    assert [each for each in page.find("time") if each.attributes.get("data-ago") == "now"]
    assert "3 runs" in page.text
    assert "/app/admin/runs?q=is:held" in page.links
    assert not [each for each in page.actions if API in each]


async def test_a_breaker_is_forced_and_released_at_home(house: House) -> None:
    house.app.breaker("pay/eu west")
    client = await house.keyed("ADMIN", name="operator")
    force = f"POST {API}/pay%2Feu%20west/force"
    page = await read(client, PAGE)
    forms = page.find("form", data_action=force)
    assert [json.loads(each.attributes["data-body"])["state"] for each in forms] == ["OPEN", "CLOSED"]
    assert all(each.attributes["data-undo"].endswith("/release") for each in forms)
    [for_how_long, _] = page.find("select", name="seconds")
    assert "until reset to automatic" in for_how_long.text
    path = force.partition(" ")[2]
    answer = await client.post(path, json={"state": "OPEN", "reason": EVIL, "seconds": 3600})
    assert answer.status_code == 200
    forced = await client.get(PAGE)
    assert "<script>alert" not in forced.text
    assert "<img" not in forced.text
    held = await read(client, PAGE)
    assert "Manual, by key:operator" in held.text
    assert "alert(1)" in held.text
    assert f"POST {API}/pay%2Feu%20west/release" in held.actions
    released = await client.post(f"{API}/pay%2Feu%20west/release", json={})
    assert released.status_code == 200, "undo sends an empty object"


async def test_after_an_outage_a_breaker_without_work_raises_no_alarm(house: House) -> None:
    """The next call probes it, but the next call may be hours away."""
    house.app.breaker("bank")

    @house.app.task(breaker="bank")
    async def pay(_: Any = None) -> None: ...

    viewer, breakers = await house.keyed("VIEWER"), house.app.breakers(by="ana")
    await breakers.force("bank", "OPEN", reason="maintenance")
    assert "bank is failing" in (await read(viewer, PAGE)).text
    await breakers.release("bank")
    page = await read(viewer, PAGE)
    assert "All dependencies OK" in page.text
    assert "Tried with the next run" in page.text
    assert "A probe is in progress" not in page.text

    await breakers.force("bank", "OPEN", reason="maintenance")
    await house.app.start(pay)
    await house.work()
    await breakers.release("bank")
    page = await read(viewer, PAGE)
    assert (
        "bank is being probed 1 run is on hold and will resume automatically. The next runs are probes."
        in (page.text)
    )


async def test_elsewhere_it_is_read_only_and_the_operator_is_not_named(house: House) -> None:
    house.app.breaker("bank")
    await house.organization("acme")
    await house.app.breakers(by="ana").force("bank", "OPEN", reason="a secret of home")
    for role, org in (("OWNER", "acme"), ("VIEWER", "default"), ("STAFF", "default")):
        page = await read(await house.keyed(role, org), PAGE)
        assert not [each for each in page.actions if API in each]
        assert "Manual" in page.text
        assert ("a secret of home" in page.text) is (org == "default")


async def test_an_empty_page_explains_breakers(house: House) -> None:
    assert "No breakers configured" in (await read(await house.keyed(), PAGE)).text


async def test_16_p4_a_half_open_breaker_without_held_runs_is_tried_with_the_next_run(house: House) -> None:
    house.app.breaker("bank")
    await house.app.breakers(by="ben").force("bank", "OPEN", reason="maintenance")
    await house.app.breakers(by="ben").release("bank")
    client = await house.keyed("VIEWER")
    page = await read(client, PAGE)
    assert "Tried with the next run" in page.text
    assert not page.find("tr", class_="probed")
    assert "All dependencies OK" in page.text
    [found] = (await client.get(API)).json()["items"]
    assert (found["state"], found["idle"]) == ("HALF_OPEN", True)


async def test_p4_a_half_open_breaker_that_holds_runs_is_being_probed(house: House) -> None:
    house.app.breaker("bank")

    @house.app.task(breaker="bank", max_attempts=1)
    async def pay(_: Any = None) -> None: ...

    await house.app.breakers(by="ben").force("bank", "OPEN", reason="maintenance")
    await house.app.start(pay)
    await parts_of(house.app).worker_in_test().work_off()
    await house.app.breakers(by="ben").release("bank")
    client = await house.keyed("VIEWER")
    page = await read(client, PAGE)
    assert page.find("tr", class_="probed")
    assert "bank is being probed" in page.text
    [found] = (await client.get(API)).json()["items"]
    assert (found["state"], found["idle"]) == ("HALF_OPEN", False)
