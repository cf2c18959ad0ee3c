"""A site for the browser: `redrive serve` of the shop in a separate process, with users who can sign in.

site = await Site.opened(path)                a new SQLite file, a worker in the process
await site.start("checkout", order(1))        through the API, as an owner
site.trouble(stripe="503")                    from now on; site.trouble() ends it
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from argon2 import PasswordHasher
from tests.browser.serving import started

from redrive.app import Redrive
from redrive.errors import AlreadyExistsError
from redrive.identity.passwords import Passwords
from redrive.parts import parts_of
from redrive.settings import Settings

SECONDS = 30.0
"""The time limit of a test, in seconds."""

ROLES = ("viewer", "staff", "admin", "owner")
PASSWORD = "correct horse battery staple"
ENDED = ("SUCCESS", "FAILED", "PARTIAL", "DLQ_PENDING", "CANCELLED")

_SETTINGS = {
    "server_port": "0",
    "server_worker": "true",
    "server_key_rate": "100000",
    "server_org_rate": "1000000",
    "retry_base_delay_ms": "20",
    "retry_jitter_max_ms": "0",
    "worker_poll_ms": "50",
    "worker_lease_ttl_sec": "20",
    "worker_grace_sec": "1",
    "server_drain_sec": "1",
    "dlq_interval_sec": "10",
    "code_version": "2026.11.3",
}


class Site:
    """A site at `url`; `api` is a client with an owner's key, for the setup of a test."""

    api: httpx.AsyncClient

    def __init__(self, path: Path, database_url: str | None = None, **settings: str) -> None:
        self.database_url = database_url or f"sqlite:///{path}/work.db"
        self._trouble = path / "trouble.json"
        self._settings = {"database_url": self.database_url, **_SETTINGS, **settings}
        self._log = path / "server.log"
        self.states: dict[str, Any] = {}
        """The cookies of users who have signed in, by role."""
        self._port = "0"

    @classmethod
    async def opened(cls, path: Path, database_url: str | None = None, **settings: str) -> Site:
        site = cls(path, database_url, **settings)
        key = await site._people()
        await asyncio.to_thread(site.begin)
        headers = {"Authorization": f"Bearer {key}"}
        site.api = httpx.AsyncClient(base_url=site.url, headers=headers, timeout=SECONDS, trust_env=False)
        return site

    async def close(self) -> None:
        await self.api.aclose()
        await asyncio.to_thread(self.end)

    # Process

    def begin(self) -> None:
        """Start the server, on its earlier port if it has run before."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}
        given = {f"REDRIVE_{name.upper()}": value for name, value in self._settings.items()}
        environment = {**clean, **given, "ACME_TROUBLE": str(self._trouble)}
        self._process = started(environment, self._log, self._port)
        self.url = self._announced()
        self._port = self.url.rpartition(":")[2]

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)
        self._process.join(SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._log.rename(self._log.with_suffix(".before"))

    @property
    def log(self) -> str:
        """Return the output of the server since its start."""
        return self._log.read_text(encoding="utf-8") if self._log.exists() else ""

    def _announced(self) -> str:
        while not (found := re.search(r"Redrive is at (http://127\.0\.0\.1:\d+)\n", self.log)):
            assert self._process.is_alive(), f"the server has ended: {self.log}"
            self._process.join(0.01)
        return found[1]

    # Setup

    def trouble(self, **troubles: str | dict[str, Any] | list[Any]) -> None:
        """Replace the current troubles: see acme.trouble."""
        several = {name: each if isinstance(each, list) else [each] for name, each in troubles.items()}
        aside = self._trouble.with_suffix(".new")
        aside.write_text(json.dumps(several))
        aside.replace(self._trouble)

    async def start(self, work: str, *payloads: Any, **options: Any) -> list[str]:
        """Start runs and return their ids."""
        body = {"work": work, "payloads": payloads, **options}
        return [each["id"] for each in (await self.post("/api/v1/runs/many", body))["items"]]

    async def ended(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Wait until the runs have ended, and return their states."""
        return {each: await self._ended(each) for each in run_ids}

    async def _ended(self, run_id: str) -> str:
        async def state() -> str | None:
            found: str = (await self.get(f"/api/v1/runs/{run_id}"))["state"]
            return found if found in ENDED else None

        return str(await until(state))

    async def dead_letters(self, work: str, *payloads: Any) -> list[str]:
        """Start runs that must fail, and return the ids of their dead letters."""
        runs = await self.start(work, *payloads)
        states = await self.ended(runs)
        assert set(states.values()) == {"DLQ_PENDING"}, states
        found = (await self.get("/api/v1/dead-letters", size=500))["items"]
        by_run = {each["run_id"]: each["id"] for each in found}
        return [by_run[each] for each in runs]

    async def get(self, path: str, **query: Any) -> Any:
        return _json(await self.api.get(path, params=query))

    async def post(self, path: str, body: Any = None) -> Any:
        return _json(await self.api.post(path, json={} if body is None else body))

    async def _people(self) -> str:
        """Add a member per role, named after it, if missing, and return the key of an owner."""
        schema = self._settings.get("schema", "redrive")
        app = Redrive(self.database_url, settings=Settings(schema=schema), log=False, durable=False)
        parts_of(app).declared.passwords = quick_passwords()
        try:
            await add_people(app)
            return (await app.members().keys.create(f"browser tests {uuid4()}", "OWNER")).text
        finally:
            await app.close()


async def add_people(app: Redrive) -> None:
    members = app.members()
    for role in ROLES:
        with suppress(AlreadyExistsError):
            await members.add(f"{role}@acme.example", role)
            await members.accounts.set_password(f"{role}@acme.example", PASSWORD)


def quick_passwords() -> Passwords:
    """Return fast password hashing: the usual slowness protects, and would only delay tests."""
    return Passwords(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


async def until(ask: Callable[[], Awaitable[Any]], seconds: float = SECONDS) -> Any:
    """Repeat the request until it returns a value."""
    async with asyncio.timeout(seconds):
        while not (answer := await ask()):
            await asyncio.sleep(0.02)
        return answer


def _json(answer: httpx.Response) -> Any:
    assert answer.is_success, f"{answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


# Payloads of the shop

_PEOPLE = ("Mia Keller", "Luca Rossi", "Emma Dubois", "Noah Weber", "Sofia Marino", "Elias Novak")


def order(number: int, **changes: Any) -> dict[str, Any]:
    """Return a payload of `checkout`."""
    name = _PEOPLE[number % len(_PEOPLE)]
    return {
        "order_id": f"ord_{number:06}",
        "customer": {"name": name, "email": f"{name.lower().replace(' ', '.')}@example.com"},
        "lines": [{"sku": f"SKU-{1000 + number * 37 % 9000}", "quantity": 1 + number % 3}],
        "total": 1990 + number * 173 % 20_000,
        "currency": "CHF",
        "card": {"token": f"tok_{number:06}", "number": "4242424242424242", "cvc": "123"},
        "address": {"street": f"Seestrasse {1 + number % 90}", "city": "Zürich", "country": "CH"},
        **changes,
    }


def invoice(number: int) -> dict[str, Any]:
    """Return a payload of `invoice.send_email`."""
    return {"number": f"2026-{number:05}", "to": f"accounts{number}@example.com", "password": "hunter2"}


def contact(number: int) -> dict[str, Any]:
    """Return a payload of `crm.sync`."""
    name = _PEOPLE[number % len(_PEOPLE)]
    return {"contact_id": f"c_{number}", "name": name, "email": "x@example.com", "api_key": "sk_live_abc123"}
