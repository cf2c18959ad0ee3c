"""Signing in and out over HTTP: passwords, links, other organizations, other sessions (security baseline)."""

from __future__ import annotations

from tests.server.house import ORIGIN, House, until

PASSWORD = "a horse, a horse, my kingdom"


async def test_a_password_opens_a_session_and_signing_out_ends_it(house: House) -> None:
    await house.member("ana", PASSWORD, "ADMIN")
    browser = await house.signed_in("ana", PASSWORD)
    told = (await browser.get("/api/v1/session")).json()
    assert (told["name"], told["role"], told["org"], told["kind"]) == ("ana", "ADMIN", "default", "session")
    assert told["organizations"] == [{"org": "default", "title": "", "role": "ADMIN"}]
    assert (await browser.delete("/api/v1/session")).status_code == 204
    assert (await browser.get("/api/v1/session")).status_code == 401


async def test_a_wrong_password_and_an_unknown_name_are_answered_alike(house: House) -> None:
    await house.member("ana", PASSWORD)
    client = house.client(**ORIGIN)
    wrong = await client.post("/api/v1/session", json={"name": "ana", "password": "not this one at all"})
    nobody = await client.post("/api/v1/session", json={"name": "bob", "password": PASSWORD})
    assert wrong.status_code == nobody.status_code == 401
    assert _without_id(wrong.json()) == _without_id(nobody.json())
    assert "set-cookie" not in wrong.headers


async def test_the_cookie_is_out_of_reach_for_scripts(small_house: House) -> None:
    await small_house.member("ana", PASSWORD)
    client = small_house.client(**ORIGIN)
    answer = await client.post("/api/v1/session", json={"name": "ana", "password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie  # http on this machine


async def test_a_link_signs_in_once(house: House) -> None:
    owner = await house.keyed("OWNER")
    await house.member("ana", PASSWORD, "STAFF")
    made = await owner.post("/api/v1/members/ana/link", json={})
    assert made.status_code == 201
    token = made.json()["url"].partition("#")[2]
    first = await house.client(**ORIGIN).post("/api/v1/session/link", json={"token": token})
    assert (first.status_code, first.json()["role"]) == (200, "STAFF")
    again = await house.client(**ORIGIN).post("/api/v1/session/link", json={"token": token})
    assert again.status_code == 401


async def test_a_session_acts_in_one_organization_at_a_time(house: House) -> None:
    await house.organization("acme")
    await house.member("ana", PASSWORD, "VIEWER", org="acme")
    browser = await house.signed_in("ana", PASSWORD)
    entered = await browser.put("/api/v1/session/organization", json={"name": "default"})
    assert entered.status_code == 404
    await house.member("olga", PASSWORD, "OWNER")
    owner = await house.signed_in("olga", PASSWORD)
    entered = await owner.put("/api/v1/session/organization", json={"name": "acme"})
    assert (entered.status_code, entered.json()["org"], entered.json()["role"]) == (200, "acme", "OWNER")
    assert (await owner.get("/api/v1/session")).json()["org"] == "acme"


async def test_changing_a_password_ends_the_other_sessions(house: House) -> None:
    await house.member("ana", PASSWORD)
    here, there = await house.signed_in("ana", PASSWORD), await house.signed_in("ana", PASSWORD)
    assert len((await here.get("/api/v1/session/all")).json()["items"]) == 2
    wrong = await here.put("/api/v1/session/password", json={"password": "another long sentence"})
    assert wrong.status_code == 403
    right = {"password": "another long sentence", "current": PASSWORD}
    assert (await here.put("/api/v1/session/password", json=right)).status_code == 204
    assert (await here.get("/api/v1/session")).status_code == 200
    assert (await there.get("/api/v1/session")).status_code == 401


async def test_one_session_can_end_another_of_the_same_user_only(house: House) -> None:
    await house.member("ana", PASSWORD)
    await house.member("bob", PASSWORD)
    here, there = await house.signed_in("ana", PASSWORD), await house.signed_in("ana", PASSWORD)
    bob = await house.signed_in("bob", PASSWORD)
    items = (await here.get("/api/v1/session/all")).json()["items"]
    newest = items[0]["id"]
    assert (await bob.delete(f"/api/v1/session/all/{newest}")).status_code == 404
    assert (await there.get("/api/v1/session")).status_code == 200
    assert (await here.delete(f"/api/v1/session/all/{newest}")).status_code == 204
    assert (await there.get("/api/v1/session")).status_code == 401


async def test_a_key_has_no_session(house: House) -> None:
    client = await house.keyed("OWNER")
    assert (await client.get("/api/v1/session")).json()["csrf_token"] is None
    assert (await client.delete("/api/v1/session")).status_code == 409


async def test_trying_passwords_is_slowed_down(small_house: House) -> None:
    client = small_house.client(**ORIGIN)
    body = {"name": "ana", "password": "not this one at all"}
    assert (await client.post("/api/v1/session", json=body)).status_code == 401
    await until(429, lambda: client.post("/api/v1/session", json=body))


def _without_id(problem: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in problem.items() if name != "request_id"}
