"""The external services of the demo, over HTTP: they act once per key, and break on request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from redrive.demo.folder import ShippingZones
from redrive.demo.world import World
from redrive.demo.world_server import serving

TOKEN = "the token"
GOOD = {"number": "4242 4242 4242 4242"}


class Outside:
    def __init__(self, world: World, zones: ShippingZones, url: str) -> None:
        self.world, self.zones, self.url = world, zones, url
        self.client = httpx2.Client(
            base_url=url, trust_env=False, headers={"Authorization": f"Bearer {TOKEN}"}
        )

    def charge(self, key: str, reference: str = "order-1", card: dict[str, str] = GOOD) -> httpx2.Response:
        body = {"reference": reference, "card": card}
        return self.client.post("/payments/charges", json=body, headers={"Idempotency-Key": key})

    def control(self, **wish: Any) -> httpx2.Response:
        return self.client.post("/control", json=wish)

    def about(self, reference: str) -> dict[str, Any]:
        told: dict[str, Any] = self.client.get("/control", params={"about": reference}).json()["about"]
        return told


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    world, zones = World(TOKEN), ShippingZones(tmp_path)
    zones.prepare()
    with serving(world, zones) as url:
        it = Outside(world, zones, url)
        yield it
        it.client.close()


def test_a_service_acts_once_for_a_key(outside: Outside) -> None:
    answers = [outside.charge("a key") for _ in range(3)]
    assert {(each.status_code, each.text) for each in answers} == {(200, answers[0].text)}
    assert outside.about("order-1")["acted"] == {"payments/charges": 1}
    assert outside.world.charges() == (1, 0)
    assert outside.charge("another key").status_code == 200
    assert outside.world.charges() == (1, 1), "charged twice, under two keys"


def test_a_card_that_has_expired_and_a_wrong_credential_are_refused(outside: Outside) -> None:
    assert outside.charge("a key", card={"number": "4000 0000 0000 0069"}).status_code == 402
    outside.client.headers["Authorization"] = "Bearer something else"
    assert outside.charge("a key").status_code == 401
    assert outside.about("order-1")["acted"] == {}


def test_a_fault_about_one_reference_leaves_the_others_alone(outside: Outside) -> None:
    outside.control(service="payments", state="failing", about="order-1", after=1)
    assert [outside.charge(f"key {number}").status_code for number in range(3)] == [200, 503, 503]
    assert outside.charge("another", "order-2").status_code == 200
    outside.control(service="payments", state="up", about="order-1")
    assert outside.charge("a last one").status_code == 200


def test_a_service_that_is_stopped_does_not_answer(outside: Outside) -> None:
    assert outside.control(service="payments", state="stopped").json()["services"]["payments"] == "stopped"
    with pytest.raises(httpx2.RemoteProtocolError):
        outside.charge("a key")
    outside.control(service="payments", state="up")
    assert outside.charge("a key").status_code == 200


def test_a_fault_of_a_drill_ends_by_itself(tmp_path: Path) -> None:
    now = [0.0]
    world = World(TOKEN, lambda: now[0])
    world.break_("mail", by="drill", seconds=60.0)
    assert world.states()["mail"] == "failing"
    now[0] = 60.0
    assert world.states()["mail"] == "up"


def test_calm_ends_only_the_outage(outside: Outside) -> None:
    outside.world.break_("payments", by="outage")
    outside.world.break_("mail", by="person")
    outside.control(calm=60)
    states = outside.world.states()
    assert (states["payments"], states["mail"], outside.world.is_calm) == ("up", "failing", True)


@pytest.mark.parametrize(
    "wish", [{"service": "bank"}, {"service": "mail", "state": "blue"}, {"calm": "x"}, {"calm": None}]
)
def test_a_wish_that_is_not_understood_is_refused(outside: Outside, wish: dict[str, Any]) -> None:
    assert outside.control(**wish).status_code == 422
    assert set(outside.world.states().values()) == {"up"}


def test_the_page_breaks_and_repairs_without_scripts(outside: Outside) -> None:
    page = outside.client.get("/")
    assert "script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert outside.client.post("/break/mail", headers={"Origin": outside.url}).status_code == 303
    assert "answers every request with 503" in outside.client.get("/").text
    assert outside.client.post("/repair/mail").status_code == 303
    assert set(outside.world.states().values()) == {"up"}
    assert not outside.zones.is_fixed
    text = outside.client.get("/").text
    assert text.index("needs a fix") < text.index("Add Norway") < text.index("payments"), "first of all"
    assert outside.client.post("/zones/fix").status_code == 303
    assert outside.zones.is_fixed
    assert "needs a fix" not in outside.client.get("/").text
    assert outside.client.post("/break/nothing").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
)
def test_other_sites_cannot_steer_it_through_a_browser(outside: Outside, headers: dict[str, str]) -> None:
    for path in ("/break/mail", "/control", "/zones/fix"):
        body = {"service": "mail", "state": "failing"}
        assert outside.client.post(path, json=body, headers=headers).status_code == 403
    assert set(outside.world.states().values()) == {"up"}
    assert not outside.zones.is_fixed


def test_a_foreign_host_name_reads_nothing(outside: Outside) -> None:
    assert outside.client.get("/control", headers={"Host": "evil.example"}).status_code == 403


def test_a_body_that_is_too_long_is_not_read(outside: Outside) -> None:
    assert outside.client.post("/control", content=b"x" * 70_000).status_code == 413
