"""Item 20: small faults of the HTTP API and of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cases import loop_over
from tests.server.house import House
from tests.server.test_connection import caller, everything, serving

from redrive.cli.program import run
from redrive.server.admin.environment import PAGES
from redrive.server.admin.problem_page import local
from redrive.server.api.session import is_local_path
from redrive.server.limits import SIGN_IN_BURST

MEMBERS, RUNS = "/api/v1/members", "/api/v1/runs"
PASSWORD = "a horse, a horse, my kingdom"
SECRET = "canary-7"


# Names of accounts


async def eve_of_acme(house: House) -> httpx.AsyncClient:
    for org in ("acme", "beta"):
        await house.organization(org)
    await house.member("ben", PASSWORD, "OWNER", "beta")
    return await house.keyed("OWNER", "acme")


async def test_20_a_taken_name_is_refused_without_saying_whose_it_is(house: House) -> None:
    eve = await eve_of_acme(house)
    refused = await eve.post(MEMBERS, json={"name": "ben", "role": "VIEWER"})
    assert (refused.status_code, refused.json()["code"]) == (409, "exists")
    assert "organization" not in refused.json()["detail"]
    assert "account" not in refused.json()["detail"]


async def test_20_an_organization_cannot_ask_for_many_names(small_house: House) -> None:
    """After a few names that others use, it gets the same response for every name."""
    eve = await eve_of_acme(small_house)
    for _ in range(int(SIGN_IN_BURST)):
        assert (await eve.post(MEMBERS, json={"name": "ben", "role": "VIEWER"})).status_code == 409
    for name in ("ben", "a new name"):
        refused = await eve.post(MEMBERS, json={"name": name, "role": "VIEWER"})
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    other = await small_house.keyed("OWNER", "beta")
    assert (await other.post(MEMBERS, json={"name": "dora", "role": "VIEWER"})).status_code == 201


async def test_20_new_names_do_not_count(small_house: House) -> None:
    eve = await eve_of_acme(small_house)
    for number in range(int(SIGN_IN_BURST) + 5):
        added = await eve.post(MEMBERS, json={"name": f"member {number}", "role": "VIEWER"})
        assert added.status_code == 201


# The address after signing in

HERE = [
    "/",
    "/app/admin",
    "/app/admin/",
    "/app/admin/dlq?q=is%3Aopen",
    "/app/admin/runs/7?next=//evil.example",
    "/a.b/c..d",
]
ELSEWHERE = [
    "/.//host",
    "/./host",
    "/../host",
    "/app/..//host",
    "/app//host",
    "//host",
    "/app/.",
    "/app/..",
    "/app/..?q=1",
    "/%2e//host",
    "/%2E%2e/host",
    "/.%2e",
    "/app/./admin",
    "\\\\host",
    "https://host",
]


def test_20_only_plain_paths_of_this_server_are_followed() -> None:
    assert [path for path in HERE if not is_local_path(path)] == []
    assert [path for path in ELSEWHERE if is_local_path(path)] == []
    assert {local(path) for path in ELSEWHERE} == {PAGES}


async def test_20_dot_segments_are_refused_where_next_is_taken(small_house: House) -> None:
    client = small_house.client()
    for path in ("/.//host", "/app/..//host"):
        refused = await client.get("/api/v1/session/forward", params={"next": path})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
        page = await client.get("/app/sign-in", params={"next": path})
        assert path not in page.text


# Duplicate keys in an object

TWICE = [
    b'{"work": "greet", "work": "charge"}',
    b'{"work": "greet", "payload": {"cents": 1, "cents": 100}}',
    b'{"work": "greet", "payload": [[{"a": 1, "\\u0061": 2}]]}',
]


@loop_over("body", TWICE)
async def test_20_a_key_twice_is_refused(small_house: House, body: bytes) -> None:
    client = await small_house.keyed()
    refused = await client.post(RUNS, content=body, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["code"]) == (400, "duplicate_key")
    assert not (await client.get(RUNS)).json()["items"]


async def test_20_the_same_key_in_two_objects_is_fine(small_house: House) -> None:
    client = await small_house.keyed()
    body: dict[str, Any] = {"work": "greet", "payload": [{"a": 1}, {"a": 2}], "metadata": {"a": {"a": 3}}}
    assert (await client.post(RUNS, json=body)).status_code == 202
    broken = await client.post(RUNS, content=b'{"work": ', headers={"Content-Type": "application/json"})
    assert (broken.status_code, broken.json()["code"]) == (400, "malformed_json")


# A whole URL as the target of a request


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"/api/v1/session", b"localhost", 401),
        (b"http://localhost/api/v1/session", b"localhost", 401),
        (b"HTTP://LOCALHOST:80/api/v1/session", b"localhost", 401),
        (b"http://localhost/api/v1/session", b"evil.example", 401),
        (b"http://evil.example/api/v1/session", b"localhost", 421),
        (b"http://localhost@evil.example/api/v1/session", b"localhost", 421),
        (b"http://evil.example/healthz", b"localhost", 200),
        (b"ftp://localhost/api/v1/session", b"localhost", 400),
    ],
)
async def test_20_the_target_of_a_request_names_the_host(
    small_house: House, target: bytes, host: bytes, status: int
) -> None:
    request = b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    async with serving(small_house.api) as port, caller(port) as (reader, writer):
        writer.write(request)
        answer = await everything(reader)
    assert int(answer.split(b" ", 2)[1]) == status


# Passwords on a command line


@pytest.mark.parametrize("command", ["doctor", "config", "migrate"])
def test_20_an_address_with_a_password_is_no_argument(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    address = f"postgresql://app:{SECRET}@127.0.0.1:1/shop"
    assert run([command, "--set", f"database_url={address}"]) == 2
    printed = "".join(capsys.readouterr())
    assert "this database_url contains a password, and other users can see arguments" in printed
    assert SECRET not in printed


@pytest.mark.parametrize("address", ["sqlite:///work.db", "postgresql://app@127.0.0.1:1/shop"])
def test_20_an_address_without_a_password_is_an_argument(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["config", "-o", "plain", "--set", f"database_url={address}"]) == 0
    assert address in capsys.readouterr().out
