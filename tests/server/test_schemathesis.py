"""Requests at all bounds of the OpenAPI document, and random ones, as every role.

Every response matches the document, none is a server error, the server rejects what the document forbids, and
no caller reaches, sees or changes rows of another organization (I8). `make fuzz` sends more.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from schemathesis import GenerationMode
from tests.server.fuzz import fuzzing
from tests.server.fuzzer import TARGETS, Case, Fuzzer
from tests.server.rows import Rows, all_rows, difference, rows_of
from tests.server.two_orgs import HOME, OTHER
from tests.servers import PostgresServer

from redrive.server.api import members

EVERY = 5
"""Send one of this many requests at the bounds; each database gets different ones."""

MEMBERS = "/api/v1/members"


@pytest.fixture(params=["sqlite", "postgres"])
def fuzzer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fuzzer]:
    if request.param == "sqlite":
        with fuzzing(f"sqlite:///{tmp_path}/work.db", OTHER, letters=150) as sqlite:
            yield sqlite
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schema = f"test_{uuid.uuid4().hex}"
    with fuzzing(server.url, HOME, schema, letters=150) as postgres:
        yield postgres
    asyncio.run(_drop(server.url, schema))


@pytest.fixture
def small_fuzzer(tmp_path: Path) -> Iterator[Fuzzer]:
    with fuzzing(f"sqlite:///{tmp_path}/work.db", HOME, letters=24) as each:
        yield each


def test_the_document_is_correct_and_no_foreign_rows_are_reached(fuzzer: Fuzzer) -> None:
    before = _others_rows(fuzzer)
    fuzzer.ask_all(_cases(fuzzer, 0 if fuzzer.org.name == HOME else 2))
    assert not fuzzer.faults, "\n\n".join(fuzzer.faults.values())
    assert difference(before, _others_rows(fuzzer)) == []
    assert min(fuzzer.calls["2xx"], fuzzer.calls["4xx"]) > 100
    for org in (fuzzer.org, fuzzer.other):
        assert fuzzer.run(_verified(org))


def _cases(fuzzer: Fuzzer, first: int) -> Iterator[Case]:
    bounds = chain.from_iterable(map(fuzzer.at_the_bounds, GenerationMode))
    random = [fuzzer.at_random(mode, 1, number=7) for mode in GenerationMode]
    return chain(islice(bounds, first, None, EVERY), *random)


async def _verified(org: Any) -> bool:
    """I14."""
    verdict = await (await org.failures()).audit.verify()
    return bool(verdict.sound)


def _others_rows(fuzzer: Fuzzer) -> Rows:
    return rows_of(fuzzer.run(all_rows(fuzzer.org.house.app)), fuzzer.other.name)


async def _drop(url: str, schema: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.execute(f"DROP ROLE IF EXISTS {schema}_redrive_tenant")
    await connection.close()


# Do these checks find faults?


def test_an_answer_that_is_not_as_documented_would_be_noticed(
    small_fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = members.MEMBER.view
    monkeypatch.setattr(members.MEMBER, "view", lambda member: {**view(member), "active": "yes"})
    _ask(small_fuzzer, f"GET {MEMBERS}", GenerationMode.POSITIVE)
    assert any("violates schema" in each for each in small_fuzzer.faults.values())


def test_a_fault_of_the_server_would_be_noticed(
    small_fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(members.MEMBER, "view")
    _ask(small_fuzzer, f"GET {MEMBERS}", GenerationMode.POSITIVE)
    assert any("Server error" in each for each in small_fuzzer.faults.values())


def test_a_canary_of_another_organization_would_be_noticed(small_fuzzer: Fuzzer) -> None:
    small_fuzzer.other.canary = small_fuzzer.org.canary
    _ask(small_fuzzer, f"GET {MEMBERS}", GenerationMode.POSITIVE)
    assert any("canary" in each for each in small_fuzzer.faults)


def test_access_to_another_organization_would_be_noticed(small_fuzzer: Fuzzer) -> None:
    small_fuzzer.other.kept = small_fuzzer.org.kept
    _ask(small_fuzzer, f"GET {MEMBERS}/{{id}}", GenerationMode.POSITIVE)
    assert any("reached" in each for each in small_fuzzer.faults)


def _ask(fuzzer: Fuzzer, label: str, mode: GenerationMode) -> None:
    found = [each for each in fuzzer.at_the_bounds(mode) if each.operation.label == label]
    assert found
    for target in TARGETS:
        fuzzer.ask_all(found, [target])
