"""Which requests the server admits, and how it explains a rejection (security baseline, RFC 9457)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.house import BASE, House, new_app, served, until

from redrive.parts import parts_of
from redrive.server import site

PASSWORD = "a horse, a horse, my kingdom"
PROBLEM = {"type", "title", "status", "code", "detail", "hint", "request_id"}


async def test_without_a_credential_nothing_is_revealed(house: House) -> None:
    answer = await house.client().get("/api/v1/dead-letters")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json().keys() >= PROBLEM
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer rdk_x", "Basic YTpi", "rdk_", "Bearer é"])
async def test_a_credential_that_does_not_hold_is_like_none(small_house: House, header: str) -> None:
    client = small_house.client()
    answer = await client.get("/api/v1/session", headers=[(b"Authorization", header.encode())])
    assert answer.status_code == 401


async def test_a_key_in_the_address_is_refused_and_not_repeated(small_house: House) -> None:
    key = await small_house.key()
    answer = await small_house.client(key).get("/api/v1/dead-letters", params={"q": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "key_in_address")
    assert key not in answer.text


async def test_an_unknown_parameter_is_an_error_with_a_suggestion(small_house: House) -> None:
    client = await small_house.keyed()
    answer = await client.get("/api/v1/dead-letters", params={"sizes": 5})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_parameter")
    assert "'size'" in answer.json()["hint"]


async def test_an_unknown_field_is_an_error_that_names_it(small_house: House) -> None:
    client = await small_house.keyed()
    answer = await client.post("/api/v1/keys", json={"name": "x", "role": "ADMIN", "org": "acme"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["at"] == "body.org"


async def test_a_problem_does_not_repeat_the_request_i9(small_house: House) -> None:
    client = await small_house.keyed()
    answer = await client.post("/api/v1/keys", json={"name": {"sk_live_canary": 1}, "role": "canary-role"})
    assert answer.status_code == 422
    assert "canary" not in answer.text


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Origin": BASE}, "csrf"),
        ({"Origin": BASE, "X-CSRF-Token": "nonsense"}, "csrf"),
        ({"Origin": "https://evil.example", "X-CSRF-Token": "right"}, "foreign_origin"),
        ({"Origin": "null", "X-CSRF-Token": "right"}, "foreign_origin"),
        ({"X-CSRF-Token": "right"}, "foreign_origin"),
        ({"Sec-Fetch-Site": "cross-site", "X-CSRF-Token": "right"}, "foreign_origin"),
    ],
)
async def test_a_change_needs_the_token_and_the_origin_of_our_own_pages(
    small_house: House, headers: dict[str, str], code: str
) -> None:
    await small_house.member("ana", PASSWORD)
    browser = await small_house.signed_in("ana", PASSWORD)
    token = browser.headers.pop("X-CSRF-Token")
    del browser.headers["Origin"]
    sent = {name: token if value == "right" else value for name, value in headers.items()}
    answer = await browser.post("/api/v1/organizations", json={"name": "acme"}, headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (403, code)


async def test_a_change_with_both_is_made(small_house: House) -> None:
    await small_house.member("ana", PASSWORD)
    browser = await small_house.signed_in("ana", PASSWORD)
    assert (await browser.post("/api/v1/organizations", json={"name": "acme"})).status_code == 201


async def test_the_token_of_another_session_does_not_help(small_house: House) -> None:
    await small_house.member("ana", PASSWORD)
    one, two = await small_house.signed_in("ana", PASSWORD), await small_house.signed_in("ana", PASSWORD)
    one.headers["X-CSRF-Token"] = two.headers["X-CSRF-Token"]
    assert (await one.post("/api/v1/organizations", json={"name": "acme"})).json()["code"] == "csrf"


async def test_every_answer_protects_browsers(small_house: House) -> None:
    for path in ("/healthz", "/api/v1/session", "/api/docs", "/nowhere", "/app/sign-in"):
        headers = (await small_house.client().get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == ("same-origin" if path.startswith("/app") else "no-referrer")
        assert "unsafe" not in headers["content-security-policy"]


async def test_a_request_id_is_kept_when_it_is_harmless(small_house: House) -> None:
    client = small_house.client()
    assert (await client.get("/healthz", headers={"X-Request-Id": "abc-1.2_3"})).headers[
        "x-request-id"
    ] == "abc-1.2_3"
    for strange in ("a b", "x" * 65, "<script>"):
        answer = await client.get("/healthz", headers={"X-Request-Id": strange})
        assert answer.headers["x-request-id"] != strange


async def test_another_host_name_is_not_answered(small_house: House) -> None:
    client = small_house.client()
    answer = await client.get("/api/docs", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (421, "unknown_host")
    for probe in ("/healthz", "/readyz"):  # a container's address, unknown in advance
        assert (await client.get(probe, headers={"Host": "10.0.0.7:8400"})).status_code == 200


async def test_a_body_that_is_too_large_is_refused(small_house: House) -> None:
    client = await small_house.keyed()
    most = parts_of(small_house.app).settings.server_body_bytes
    answer = await client.post("/api/v1/keys", content=b" " * (most + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(most // 65_536 + 2):
            yield b" " * 65_536

    answer = await client.post("/api/v1/keys", content=pieces(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


async def test_only_callers_over_the_rate_limit_have_to_wait() -> None:
    async with served(new_app("sqlite://:memory:", server_key_rate=2, server_org_rate=1000)) as house:
        greedy, modest = await house.keyed(), await house.keyed()
        assert (await greedy.get("/api/v1/session")).status_code == 200
        last = await until(429, lambda: greedy.get("/api/v1/session"))
        assert int(last.headers["retry-after"]) >= 1
        assert (await modest.get("/api/v1/session")).status_code == 200


async def test_the_server_says_whether_it_can_work(house: House) -> None:
    client = house.client()
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}


async def test_a_body_without_its_content_type_gets_a_clear_error(small_house: House) -> None:
    client = await small_house.keyed()
    answer = await client.post("/api/v1/keys", content=b'{"name": "x", "role": "ADMIN"}')
    assert (answer.status_code, answer.json()["code"]) == (415, "not_json")


async def test_load_balancers_may_ask_by_head(small_house: House) -> None:
    for path in ("/healthz", "/readyz"):
        assert (await small_house.client().head(path)).status_code == 200


async def test_missing_and_misspelled_fields_are_reported_together(small_house: House) -> None:
    answer = await (await small_house.keyed()).post("/api/v1/keys", json={"nmae": "x", "role": "ADMIN"})
    detail = "body.name: required; body.nmae: unknown field"
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


async def test_another_method_gets_the_list_of_allowed_methods(small_house: House) -> None:
    answer = await (await small_house.keyed()).put("/api/v1/runs", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


async def test_every_operation_of_the_document_is_named_and_summed_up(small_house: House) -> None:
    """Generators of clients need both."""
    paths = (await small_house.client().get("/api/openapi.json")).json()["paths"]
    operations = [each for methods in paths.values() for each in methods.values()]
    ids = [each["operationId"] for each in operations]
    assert len(set(ids)) == len(ids)
    for each in operations:
        noun, _, verb = each["operationId"].partition(".")
        assert noun == each["tags"][0]
        assert noun.removesuffix("s") not in verb.split("_")
        assert each["description"].startswith(each["summary"])


async def test_a_database_that_is_silent_is_waited_for_once(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probes of /readyz share one check, so they don't queue while the database hangs."""
    asked = 0

    async def silent() -> None:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()

    monkeypatch.setattr(site, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(site, "PROBE_TRUSTED_SECONDS", 3600.0)
    monkeypatch.setattr(parts_of(small_house.app).store, "probe", silent)
    client = small_house.client()
    answers = await asyncio.gather(*(client.get("/readyz") for _ in range(5)))
    assert {(each.status_code, each.json()["code"]) for each in answers} == {(503, "database")}
    assert asked == 1


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
async def test_a_key_that_is_revoked_before_the_body_is_whole_changes_nothing(
    small_house: House, headers: dict[str, str]
) -> None:
    """The server admitted its request before the key was revoked (security baseline)."""
    thief, owner = small_house.client(await small_house.key(name="thief")), await small_house.keyed()
    begun, revoked = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"name": "eve", '
        begun.set()
        await revoked.wait()
        yield b'"role": "OWNER"}'

    headers["Content-Type"] = "application/json"
    adding = asyncio.create_task(thief.post("/api/v1/members", content=body(), headers=headers))
    await begun.wait()
    assert (await owner.delete("/api/v1/keys/thief")).status_code == 204
    revoked.set()
    assert (await adding).status_code == 401
    assert (await owner.get("/api/v1/members")).json()["items"] == []


async def test_a_session_changes_rows_of_its_current_organization(tmp_path: Path) -> None:
    """W13: also when another process cached the session a moment ago, in another organization."""
    url = f"sqlite:///{tmp_path}/work.db"
    async with served(new_app(url)) as one, served(new_app(url)) as other:
        await one.organization("acme")
        await one.member("ana", PASSWORD)
        here = await one.signed_in("ana", PASSWORD)
        there = other.client(**dict(here.headers))
        there.cookies = here.cookies
        assert (await there.get("/api/v1/session")).json()["org"] == "default"
        await here.put("/api/v1/session/organization", json={"name": "acme"})
        started = await there.post("/api/v1/runs", json={"work": "greet"})
        assert started.status_code == 202
        assert (await here.get(f"/api/v1/runs/{started.json()['id']}")).status_code == 200
