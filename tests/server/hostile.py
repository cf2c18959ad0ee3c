"""What hostile clients bring along: secrets to look for everywhere, and a place to leave them in."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.server.house import House, new_app, served
from tests.servers import PostgresServer

SECRETS = {
    "stripe": "sk_live_c4naryStripe0000000001",
    "aws": "AKIAC4NARYAWSKEY0001",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjNG5hcnkifQ.c4naryJwtSignature",
    "pem": "-----BEGIN PRIVATE KEY-----\nMIIc4naryPem0000000000000000000000000000\n-----END PRIVATE KEY-----",
    "url": "https://deploy:c4naryUrlPassword@db.example/work",
    "assigned": "password=c4naryAssignedPassword",
}
CANARY = "c4nary"
"""Stands in the secret part of each of them, or of its decoded form."""

MARKS = ("c4nary", "C4NARY", "eyJzdWIiOiJjNG5hcnkifQ")


def secret_text() -> str:
    """All of them in one line, as somebody pastes them."""
    return " and ".join(text.replace("\n", "\\n") for text in SECRETS.values())


def secret_value() -> dict[str, Any]:
    """All of them in one value, the way payloads have them."""
    return {
        **SECRETS,
        "password": "c4naryOfItsName",
        "nested": {
            "api_key": "c4naryNested",
            "list": [SECRETS["stripe"], {"authorization": "Bearer c4naryBearer"}],
        },
        "json": '{"client_secret": "c4naryInJson"}',
    }


def told(content: bytes | str) -> set[str]:
    """The marks of secrets that can be read in it."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return {mark for mark in MARKS if mark in text}


def surroundings(content: bytes | str, marks: Iterable[str] = MARKS) -> str:
    """Where the first one stands, for whoever reads the failure."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    places = [text.find(mark) for mark in marks if mark in text]
    return text[max(0, min(places) - 150) : min(places) + 60] if places else ""


@asynccontextmanager
async def house_on(
    request: pytest.FixtureRequest, kind: str, path: Path, **settings: Any
) -> AsyncIterator[House]:
    """On SQLite in a file, or on PostgreSQL in a schema of its own."""
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
