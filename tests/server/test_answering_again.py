"""An Idempotency-Key at the API: which responses the server keeps, and for whom (G6, I8)."""

from __future__ import annotations

from tests.server.house import House

from redrive.parts import parts_of
from redrive.store.postgres_tenant import PostgresTenant
from redrive.store.sqlite_tenant import SqliteTenant

KEY = {"Idempotency-Key": '"same"'}
BODY = {"name": "acme"}
ORGANIZATIONS = "/api/v1/organizations"


async def test_a_stored_answer_is_returned_only_to_the_same_key(house: House) -> None:
    mine, theirs = await house.keyed(), await house.keyed()
    first = await mine.post(ORGANIZATIONS, json=BODY, headers=KEY)
    again = await mine.post(ORGANIZATIONS, json=BODY, headers=KEY)
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    other = await theirs.post(ORGANIZATIONS, json=BODY, headers=KEY)
    assert (other.status_code, other.json()["code"]) == (409, "exists")


async def test_an_answer_with_a_secret_is_never_stored(house: House) -> None:
    owner = await house.keyed()
    answer = await owner.post("/api/v1/keys", json={"name": "ci", "role": "VIEWER"}, headers=KEY)
    assert (answer.status_code, answer.json()["code"]) == (400, "key_not_taken")
    assert (await owner.get("/api/v1/keys/ci")).status_code == 404


async def test_a_caller_without_the_right_does_not_get_the_stored_answer(house: House) -> None:
    await house.key(name="ci")
    keys = house.app.members().keys
    client = house.client((await keys.rotate("ci")).text)
    assert (await client.post(ORGANIZATIONS, json=BODY, headers=KEY)).status_code == 201
    await keys.revoke("ci")
    house.api.state.site.authenticator.forget()
    assert (await client.post(ORGANIZATIONS, json=BODY, headers=KEY)).status_code == 401


async def test_requests_work_with_row_level_security(house: House) -> None:
    """W13: requests of an organization use connections that row-level security limits."""
    session = parts_of(house.app).store_of("acme").database
    assert isinstance(session._session, PostgresTenant | SqliteTenant)
