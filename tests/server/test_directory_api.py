"""Members, keys and organizations over HTTP (W12, security baseline): only owners manage them."""

from __future__ import annotations

from tests.server.house import House

PASSWORD = "a horse, a horse, my kingdom"


async def test_a_key_is_shown_once_and_works_until_it_is_revoked(house: House) -> None:
    owner = await house.keyed("OWNER")
    made = await owner.post("/api/v1/keys", json={"name": "deploy", "role": "ORG_ADMIN"})
    assert made.status_code == 201
    key, text = made.json()["key"], made.json()["text"]
    assert key["role"] == "ADMIN"
    assert text not in (await owner.get("/api/v1/keys")).text
    deploy = house.client(text)
    assert (await deploy.get("/api/v1/session")).json()["name"] == "key:deploy"
    assert (await owner.delete(f"/api/v1/keys/{key['id']}")).status_code == 204
    assert (await deploy.get("/api/v1/session")).status_code == 401


async def test_a_rotated_key_keeps_its_old_text_for_the_grace_only(house: House) -> None:
    owner = await house.keyed("OWNER")
    made = (await owner.post("/api/v1/keys", json={"name": "deploy", "role": "ADMIN"})).json()
    graced = await owner.post("/api/v1/keys/deploy/rotate", json={"grace_seconds": 600})
    assert graced.status_code == 200
    for text in (made["text"], graced.json()["text"]):
        assert (await house.client(text).get("/api/v1/session")).status_code == 200
    at_once = await owner.post("/api/v1/keys/deploy/rotate", json={})
    assert (await house.client(made["text"]).get("/api/v1/session")).status_code == 401
    assert (await house.client(at_once.json()["text"]).get("/api/v1/session")).status_code == 200


async def test_scopes_limit_a_key_and_cannot_exceed_its_role(house: House) -> None:
    owner = await house.keyed("OWNER")
    body = {"name": "starter", "role": "ADMIN", "scopes": ["start"]}
    text = (await owner.post("/api/v1/keys", json=body)).json()["text"]
    starter = house.client(text)
    assert (await starter.get("/api/v1/dead-letters")).status_code == 403
    wide = await owner.post("/api/v1/keys", json={"name": "wide", "role": "STAFF", "scopes": ["manage"]})
    assert wide.status_code == 422


async def test_the_last_owner_cannot_leave_or_be_removed(house: House) -> None:
    await house.member("olga", PASSWORD, "OWNER")
    browser, key = await house.signed_in("olga", PASSWORD), await house.keyed("OWNER")
    assert (await browser.delete("/api/v1/members/self")).json()["code"] == "last_owner"
    assert (await key.delete("/api/v1/members/olga")).status_code == 409
    assert (await key.patch("/api/v1/members/olga", json={"role": "ADMIN"})).status_code == 409
    await house.member("ivan", PASSWORD, "OWNER")
    assert (await browser.delete("/api/v1/members/self")).status_code == 204
    assert (await browser.get("/api/v1/session")).status_code == 401


async def test_an_edit_of_an_outdated_version_is_rejected(house: House) -> None:
    owner = await house.keyed("OWNER")
    added = await owner.post("/api/v1/members", json={"name": "Ana@Example.com", "role": "STAFF"})
    tag = added.headers["etag"]
    assert added.json()["name"] == "ana@example.com"
    path = f"/api/v1/members/{added.json()['id']}"
    first = await owner.patch(path, json={"role": "VIEWER"}, headers={"If-Match": tag})
    assert (first.status_code, first.json()["role"]) == (200, "VIEWER")
    stale = await owner.patch(path, json={"role": "ADMIN"}, headers={"If-Match": tag})
    assert (stale.status_code, stale.json()["code"]) == (412, "changed")
    assert (await owner.get(path)).json()["role"] == "VIEWER"


async def test_a_revoked_right_is_gone_with_the_next_request(house: House) -> None:
    owner = await house.keyed("OWNER")
    await house.member("ana", PASSWORD, "ADMIN")
    browser = await house.signed_in("ana", PASSWORD)
    letter = await house.dead_letter()
    assert (await owner.patch("/api/v1/members/ana", json={"role": "VIEWER"})).status_code == 200
    refused = await browser.post(f"/api/v1/dead-letters/{letter}/resolve", json={"reason": "done"})
    assert refused.status_code == 403
    assert (await owner.patch("/api/v1/members/ana", json={"active": False})).status_code == 200
    assert (await browser.get("/api/v1/dead-letters")).status_code == 401


async def test_only_owners_of_the_home_organization_make_organizations(house: House) -> None:
    owner = await house.keyed("OWNER")
    assert (await owner.post("/api/v1/organizations", json={"name": "acme"})).status_code == 201
    assert (await owner.post("/api/v1/organizations", json={"name": "acme"})).status_code == 409
    elsewhere = await house.keyed("OWNER", "acme")
    assert (await elsewhere.post("/api/v1/organizations", json={"name": "mine"})).status_code == 403
    assert [each["name"] for each in (await elsewhere.get("/api/v1/organizations")).json()["items"]] == [
        "acme"
    ]


async def test_another_organizations_members_and_keys_do_not_exist(house: House) -> None:
    await house.organization("acme")
    await house.member("ana", PASSWORD, "STAFF")
    key = (await house.app.members().keys.create("mine", "VIEWER")).key
    stranger = await house.keyed("OWNER", "acme")
    for path in ("/api/v1/members/ana", f"/api/v1/keys/{key.id}"):
        assert (await stranger.get(path)).status_code == 404
        assert (await stranger.delete(path)).status_code == 404
    assert (await stranger.post("/api/v1/members/ana/disable")).status_code == 404


async def test_a_name_that_looks_like_a_secret_is_refused_and_not_repeated_i9(small_house: House) -> None:
    owner = await small_house.keyed("OWNER")
    secret = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
    for path, body in (("members", {"name": secret, "role": "STAFF"}), ("organizations", {"name": secret})):
        answer = await owner.post(f"/api/v1/{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_value")
        assert secret.lower() not in answer.text.lower()


async def test_an_idempotency_key_that_looks_like_a_secret_is_not_repeated_i9(small_house: House) -> None:
    owner = await small_house.keyed("OWNER")
    secret = {"Idempotency-Key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"}
    assert (await owner.post("/api/v1/organizations", json={"name": "a"}, headers=secret)).status_code == 201
    reused = await owner.post("/api/v1/organizations", json={"name": "b"}, headers=secret)
    assert (reused.status_code, reused.json()["code"]) == (422, "key_reused")
    assert secret["Idempotency-Key"] not in reused.text
