"""Redrive on PostgreSQL with an ordinary database user, who may not create roles."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from tests.cli.conftest import Command
from tests.servers import PostgresServer

from redrive.app import Redrive
from redrive.errors import IsolationError
from redrive.parts import parts_of
from redrive.store.row_level_security import tenant_role

pytestmark = pytest.mark.usefixtures("real_migrations")


@pytest.fixture
def schema() -> str:
    return f"test_{uuid.uuid4().hex}"


@pytest.fixture
def administrator(live_postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def shop(
    redrive: Command,
    live_postgres: PostgresServer,
    administrator: psycopg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Commands with a database user that has its own schema and no further rights."""
    name = f"shop_{uuid.uuid4().hex}"
    user, role = sql.Identifier(name), sql.Identifier(tenant_role(schema))
    administrator.execute(sql.SQL("CREATE ROLE {} LOGIN").format(user))
    administrator.execute(sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(sql.Identifier(schema), user))
    monkeypatch.setenv("REDRIVE_DATABASE_URL", live_postgres.at(user=name))
    monkeypatch.setenv("REDRIVE_SCHEMA", schema)
    yield name
    administrator.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    administrator.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
    administrator.execute(sql.SQL("DROP ROLE {}").format(user))


async def serve(schema: str, *names: str) -> IsolationError | None:
    """Start like a server, and let an owner create organizations."""
    app = Redrive(log=False)
    try:
        missing = await parts_of(app).enable_row_level_security()
        for name in names:
            await app.members(by="ana").organizations.create(name)
        return missing
    finally:
        await app.close()


def test_8_one_organization_needs_nothing_from_an_administrator(
    redrive: Command, shop: str, schema: str
) -> None:
    assert redrive("migrate").code == 0
    assert redrive("dlq", "list").code == 0
    assert redrive("verify").code == 0
    assert "'default' is the only organization, so" in redrive("doctor").out

    missing = asyncio.run(serve(schema))
    assert missing is not None
    assert len(missing.statements) == 2
    with pytest.raises(IsolationError, match=r"for the organization 'default' only.*--print-sql"):
        asyncio.run(serve(schema, "acme"))


def test_8_the_administrators_statements_are_printed_one_per_line(
    redrive: Command, shop: str, schema: str, administrator: psycopg.Connection
) -> None:
    redrive("migrate")
    printed = redrive("migrate", "--print-sql")
    role = tenant_role(schema)
    assert printed.out.splitlines() == [f'CREATE ROLE "{role}" NOLOGIN;', f'GRANT "{role}" TO "{shop}";']

    for statement in printed.out.splitlines():
        administrator.execute(statement.encode())
    assert asyncio.run(serve(schema, "acme")) is None
    assert "row-level security isolates the organizations" in redrive("doctor").out

    nothing = redrive("migrate", "--print-sql")
    assert (nothing.code, nothing.out) == (0, "")
    assert "An administrator has nothing to do" in nothing.err


def test_8_several_organizations_are_not_served_without_the_role(
    redrive: Command, shop: str, schema: str
) -> None:
    redrive("migrate")
    assert redrive("org", "create", "acme").code == 0

    with pytest.raises(IsolationError, match=f'CREATE ROLE "{tenant_role(schema)}" NOLOGIN;'):
        asyncio.run(serve(schema))
    assert "the role for row-level security is missing" in redrive("doctor").out
