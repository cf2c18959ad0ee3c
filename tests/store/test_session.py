"""The contract of a session: the whole database and a tenant's session behave alike on each driver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.servers import PostgresServer
from tests.store.build import adhoc, ask
from tests.store.test_tenant import walled

from redrive.errors import StoreError
from redrive.store.database import Database, Session
from redrive.store.sqlite import SqliteDatabase

SECONDS = 10.0
INSERT = adhoc("INSERT INTO redrive.definitions VALUES (:name, '', '', 0)")


@pytest.fixture(params=["sqlite", "postgres", "pooled"])
async def whole(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        sqlite = SqliteDatabase(str(tmp_path / "redrive.db"), durable=False)
        await sqlite.migrate()
        yield sqlite
        await sqlite.close()
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    async with walled(server, pooler=request.param == "pooled") as postgres:
        yield postgres


@pytest.fixture(params=["whole", "tenant"])
def session(request: pytest.FixtureRequest, whole: Database) -> Session:
    return whole if request.param == "whole" else whole.tenant("acme", SECONDS)


async def names(session: Session) -> list[str]:
    return [row[0] for row in await ask(session, "SELECT digest FROM redrive.definitions ORDER BY digest")]


def rows(*found: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(name=name) for name in found]


async def test_a_statement_is_a_separate_transaction(session: Session) -> None:
    await session.fetch(INSERT, {"name": "a"})

    assert await names(session) == ["a"]


async def test_many_rows_are_written_all_or_nothing(session: Session) -> None:
    await session.fetch_many(INSERT, rows("a", "b"))
    with pytest.raises(StoreError):
        await session.fetch_many(INSERT, rows("c", "a"))
    await session.fetch_many(INSERT, [])

    assert await names(session) == ["a", "b"]


async def test_a_transaction_commits_at_its_end(session: Session) -> None:
    async with session.transaction() as inner:
        await inner.fetch(INSERT, {"name": "a"})
        await inner.fetch_many(INSERT, rows("b", "c"))
        assert await names(inner) == ["a", "b", "c"]

    assert await names(session) == ["a", "b", "c"]


async def test_a_transaction_that_fails_never_was(session: Session) -> None:
    with pytest.raises(ZeroDivisionError):
        async with session.transaction() as inner:
            await inner.fetch(INSERT, {"name": "a"})
            raise ZeroDivisionError

    assert await names(session) == []


async def test_a_transaction_inside_of_another_commits_with_it(session: Session) -> None:
    with pytest.raises(ZeroDivisionError):
        async with session.transaction() as outer:
            async with outer.transaction() as inner:
                await inner.fetch(INSERT, {"name": "a"})
            raise ZeroDivisionError
    async with session.transaction() as outer, outer.transaction() as inner:
        await inner.fetch(INSERT, {"name": "b"})

    assert await names(session) == ["b"]


async def test_a_tenant_has_only_statements(whole: Database) -> None:
    """Only the database itself has migrations, listeners and connections."""
    tenant = whole.tenant("acme", SECONDS)
    roles = set(dir(Database)) - set(dir(Session))

    assert {"migrate", "hint", "listen", "another", "tenant"} <= roles
    assert [role for role in roles if hasattr(tenant, role) and not role.startswith("_")] == []
