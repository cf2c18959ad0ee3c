"""An application on either database with its users, for the tests of identity."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from tests.servers import PostgresServer
from tests.store.build import ask
from tests.store.schemas import Schemas

from redrive.app import Redrive
from redrive.errors import RedriveError
from redrive.identity.members import Members
from redrive.identity.passwords import Passwords
from redrive.identity.sessions import UserSessions
from redrive.identity.sign_in import NewSession
from redrive.model.identity import Member
from redrive.parts import parts_of
from redrive.policy.access import Principal
from redrive.settings import Settings

PASSWORD = "correct horse battery staple"
IDENTITY = ("organizations", "users", "memberships", "api_keys", "sessions", "one_time_tokens")
QUICK = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
"""A real hasher, but fast."""


class World:
    def __init__(self, url: str, schema: str) -> None:
        self._place = (url, schema)
        self.apps: list[Redrive] = []
        self.app = self.another()

    def another(self, **settings: Any) -> Redrive:
        """Return another application, which the database sees as another process."""
        url, schema = self._place
        app = Redrive(url, settings=Settings(schema=schema, **settings), log=False, durable=False)
        parts_of(app).declared.passwords = Passwords(QUICK)
        self.apps.append(app)
        return app

    def members(self, org: str = "default", by: str | Principal = "boss") -> Members:
        return self.app.members(org=org, by=by)

    async def sessions(self) -> UserSessions:
        return self.app.members().sessions

    async def organization(self, name: str) -> Members:
        await self.members().organizations.create(name)
        return self.members(name)

    async def member(self, name: str, role: str = "OWNER", org: str = "default") -> Member:
        return await self.members(org).add(name, role)

    async def signed_in(self, name: str, org: str | None = None) -> NewSession:
        """Sign in with a link, which needs no password."""
        sessions = await self.sessions()
        new = await sessions.redeem((await sessions.link(name)).token, org=org)
        assert new is not None
        return new

    async def with_password(self, name: str, role: str = "OWNER", org: str = "default") -> Member:
        member = await self.member(name, role, org)
        await self.members(org).accounts.set_password(name, PASSWORD)
        return member

    async def as_user(self, name: str, org: str | None = None) -> Members:
        """Return the members service with the permissions of this user."""
        principal = (await self.signed_in(name, org)).signed_in.principal
        return self.members(principal.org, principal)

    async def sql(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return await ask(parts_of(self.app).database, text, **parameters)

    async def audited(self, org: str = "default", after: int = 0) -> list[tuple[str, str]]:
        """Return actor and action of the audit entries after this number."""
        text = (
            "SELECT actor, action FROM redrive.audit WHERE org = :org AND sequence > :after ORDER BY sequence"
        )
        return [(row[0], row[1]) for row in await self.sql(text, org=org, after=after)]

    async def number_audited(self) -> int:
        return int((await self.sql("SELECT count(*) FROM redrive.audit"))[0][0])

    async def everything(self) -> dict[str, list[str]]:
        """Return all rows that a rejected call must not change, and that must not contain a secret."""
        tables = (*IDENTITY, "audit", "audit_heads")
        return {
            table: sorted(map(repr, await self.sql(f"SELECT * FROM redrive.{table}"))) for table in tables
        }

    async def holds(self, secret: str) -> bool:
        assert len(secret) > 10
        return secret in repr(await self.everything())

    async def owners(self, org: str = "default") -> list[str]:
        page = await self.members(org).list(size=500)
        return [each.name for each in page.members if each.owns]

    async def check(self, *orgs: str) -> None:
        for org in orgs or ("default",):
            verdict = await self.app.failures(org=org).audit.verify()
            assert verdict.sound, str(verdict)


@asynccontextmanager
async def world_on(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Create a world; `request.param` names the database."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            world = World(f"sqlite:///{tmp_path / 'work.db'}", "redrive")
        else:
            server: PostgresServer = request.getfixturevalue("live_postgres")
            schemas: Schemas = request.getfixturevalue("schemas")
            world = World(server.url, await stack.enter_async_context(schemas.lent()))
        await world.app.open()
        yield world
        for app in world.apps:
            await app.close()


async def refused(
    world: World, error: type[RedriveError], call: Awaitable[object], text: str | None = None
) -> None:
    """Check that the call fails with this error, and changes nothing."""
    before = await world.everything()
    with pytest.raises(error, match=text):
        await call
    assert await world.everything() == before
