"""Tools of hostile clients: secrets to leave everywhere, and readers that look for them everywhere."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest
from tests.server.house import House, new_app, served
from tests.servers import PostgresServer

from redrive.server.route import GuardedRoute

SECRETS = {
    "stripe": "sk_live_c4naryStripe0000000001",
    "aws": "AKIAC4NARYAWSKEY0001",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjNG5hcnkifQ.c4naryJwtSignature",
    "pem": "-----BEGIN PRIVATE KEY-----\nMIIc4naryPem0000000000000000000000000000\n-----END PRIVATE KEY-----",
    "url": "https://deploy:c4naryUrlPassword@db.example/work",
    "assigned": "password=c4naryAssignedPassword",
}
SAFE = ("GET", "HEAD")

_NOUNS = {
    "/app/admin/dlq": "/api/v1/dead-letters",
    "/app/admin/dlq/groups": "/api/v1/groups",
    "/app/admin/runs": "/api/v1/runs",
    "/app/admin/replays": "/api/v1/operations",
    "/app/admin/events": "/api/v1/stored-events",
    "/app/admin/streams": "/api/v1/streams",
}
"""The API list whose ids each kind of page uses."""

MARKS = ("c4nary", "C4NARY", "eyJzdWIiOiJjNG5hcnkifQ")
"""Texts inside the secret parts of the secrets."""


def secret_text() -> str:
    """Return all secrets in one line, as a person pastes them."""
    return " and ".join(text.replace("\n", "\\n") for text in SECRETS.values())


def secret_value() -> dict[str, Any]:
    """Return all secrets in one value, as in a payload."""
    return {
        **SECRETS,
        "password": "c4naryOfItsName",
        "nested": {
            "api_key": "c4naryNested",
            "list": [SECRETS["stripe"], {"authorization": "Bearer c4naryBearer"}],
        },
        "json": '{"client_secret": "c4naryInJson"}',
    }


def marks_in(content: bytes | str) -> set[str]:
    """Return the marks of secrets that this content contains."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return {mark for mark in MARKS if mark in text}


def surroundings(content: bytes | str, marks: Iterable[str] = MARKS) -> str:
    """Return the text around the first mark, for the message of a failed test."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    places = [text.find(mark) for mark in marks if mark in text]
    return text[max(0, min(places) - 150) : min(places) + 60] if places else ""


@asynccontextmanager
async def house_on(
    request: pytest.FixtureRequest, kind: str, path: Path, **settings: Any
) -> AsyncIterator[House]:
    """Serve an application on SQLite in a file, or on PostgreSQL in a separate schema."""
    if kind == "sqlite":
        async with served(new_app(f"sqlite:///{path}/work.db", **settings)) as house:
            yield house
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schema = f"test_{uuid.uuid4().hex}"
    try:
        async with served(new_app(server.url, schema, **settings)) as house:
            yield house
    finally:
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        await connection.execute(f"DROP ROLE IF EXISTS {schema}_redrive_tenant")
        await connection.close()


def gets(house: House) -> list[str]:
    """Return the paths of all GET routes, except endless streams and routes that issue sessions."""
    routes = [each for each in house.api.router.routes if isinstance(each, GuardedRoute)]
    apart = ("/api/v1/events", "/api/v1/session/forward", "/api/v1/session/oidc")
    return [each.path for each in routes if "GET" in (each.methods or ()) and each.path not in apart]


async def everything_read(house: House, client: httpx.AsyncClient) -> list[httpx.Response]:
    """Send every GET request, for a few rows of each kind."""
    answers: list[httpx.Response] = []
    for path in gets(house):
        names = await _some(client, path)
        answers += [await client.get(with_names(path, quote(each))) for each in names]
    return answers


def with_names(path: str, name: str) -> str:
    return re.sub(r"\{[^}]+\}", lambda _: name, path)


def changes(house: House) -> list[tuple[str, GuardedRoute]]:
    """Return every route that may change rows, with its method."""
    routes = [each for each in house.api.router.routes if isinstance(each, GuardedRoute)]
    return [(method, each) for each in routes for method in each.methods or () if method not in SAFE]


async def _some(client: httpx.AsyncClient, path: str) -> list[str]:
    """Return ids or names for a path."""
    noun, _, parameter = path.partition("/{")
    noun = _NOUNS.get(noun, noun)
    if not parameter or noun == "/app/static":
        return ["app.css"]
    if noun == "/api/v1/replays":
        [letter] = (await client.get("/api/v1/dead-letters", params={"q": "is:any"})).json()["items"]
        history = await client.get(f"/api/v1/dead-letters/{letter['id']}/history")
        return [each["id"] for each in history.json()["replays"]]
    query = {"q": "is:any"} if noun.endswith(("dead-letters", "workflow-dlq")) else {}
    items = (await client.get(noun, params=query)).json().get("items", [])
    return [each.get("id") or each.get("fingerprint") or each["name"] for each in items[:2]] or ["x"]
