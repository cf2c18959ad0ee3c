"""A served application for the tests: real tables, real credentials, and requests over ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI

from redrive.app import Redrive
from redrive.errors import FinalError
from redrive.identity.passwords import Passwords
from redrive.parts import parts_of
from redrive.server.app import create_app
from redrive.server.banner import Banner
from redrive.settings import Settings

BASE = "http://localhost:8400"
ORIGIN = {"Origin": BASE}


def new_app(url: str, schema: str = "redrive", **settings: Any) -> Redrive:
    """Create an application: `greet` succeeds, `charge` fails, the second step of `order` fails."""
    generous = {"server_key_rate": 100_000, "server_org_rate": 1_000_000}
    app = Redrive(url, settings=Settings(schema=schema, **(generous | settings)), log=False, durable=False)
    parts_of(app).declared.passwords = Passwords(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))

    @app.task
    async def greet(name: Any = None) -> str:
        return f"hello {name}"

    @app.task
    async def charge(order: Any = None) -> None:
        raise FinalError(f"the card of {order} was declined")

    app.workflow("order", [greet, charge])
    return app


class House:
    """A served application, with clients that have credentials of every kind."""

    def __init__(self, app: Redrive, api: FastAPI) -> None:
        self.app = app
        self.api = api
        self._worker = parts_of(app).worker_in_test()

    def client(self, key: str | None = None, **headers: str) -> httpx.AsyncClient:
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        transport = httpx.ASGITransport(self.api, raise_app_exceptions=False, client=("127.0.0.1", 1234))
        return httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers)

    async def key(
        self, role: str = "OWNER", org: str = "default", name: str = "", scopes: list[str] | None = None
    ) -> str:
        """Create an API key and return its text."""
        members = self.app.members(org=org)
        made = await members.keys.create(
            name or f"{role} {parts_of(self.app).ids.new()}", role, scopes=scopes
        )
        return made.text

    async def keyed(self, role: str = "OWNER", org: str = "default", **options: Any) -> httpx.AsyncClient:
        return self.client(await self.key(role, org, **options))

    async def organization(self, name: str) -> None:
        await self.app.members().organizations.create(name)

    async def member(self, name: str, password: str, role: str = "OWNER", org: str = "default") -> None:
        members = self.app.members(org=org)
        await members.add(name, role)
        await members.accounts.set_password(name, password)

    async def signed_in(self, name: str, password: str) -> httpx.AsyncClient:
        """Return a browser with a session that sends what the admin pages send."""
        client = self.client(**ORIGIN)
        answer = await client.post("/api/v1/session", json={"name": name, "password": password})
        assert answer.status_code == 200, answer.text
        client.headers["X-CSRF-Token"] = answer.json()["csrf_token"]
        return client

    async def dead_letter(self, payload: Any = 7, org: str = "default", work: str = "charge") -> str:
        """Create a dead letter and return its id."""
        run = await self.app.start(work, payload, org=org)
        await self.work()
        letter = await run.dead_letter()
        assert letter is not None
        return letter.id

    async def work(self) -> int:
        return await self._worker.work_off()


async def until(status: int, ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Repeat a request until it has this status: on a slow machine, a rate limit refills meanwhile."""
    for _ in range(2_000):
        answer = await ask()
        if answer.status_code == status:
            return answer
    raise AssertionError(f"it was never answered with {status}")


@asynccontextmanager
async def served(app: Redrive, banner: Banner | None = None) -> AsyncIterator[House]:
    api = create_app(app, banner=banner)
    async with api.router.lifespan_context(api):
        yield House(app, api)
