"""`redrive serve`: other machines reach it only if it can authenticate them, and no log has a credential."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.house import new_app
from tests.server.served_process import SECONDS, json_of, request, served, status_of

from redrive.app import Redrive
from redrive.errors import InvalidValueError
from redrive.server.serve import operator_token, refuse_open_address


@asynccontextmanager
async def to_listen(path: Path, host: str = "127.0.0.1", **settings: Any) -> AsyncIterator[Redrive]:
    app = new_app(f"sqlite:///{path}/work.db", server_host=host, **settings)
    try:
        yield app
    finally:
        await app.close()


async def is_refused(app: Redrive) -> bool:
    try:
        await refuse_open_address(app)
    except InvalidValueError as error:
        return "redrive key create" in str(error)
    return False


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
async def test_this_machine_may_always_come_in(tmp_path: Path, host: str) -> None:
    async with to_listen(tmp_path, host) as app:
        assert not await is_refused(app)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "server.example"])
async def test_the_server_stays_on_loopback_until_a_credential_exists(tmp_path: Path, host: str) -> None:
    async with to_listen(tmp_path, host) as app:
        assert await is_refused(app)
        await app.members().keys.create("ci", "VIEWER")
        assert not await is_refused(app)


async def test_an_invalid_credential_identifies_no_caller(tmp_path: Path) -> None:
    """A revoked key, a member without a password, a disabled member."""
    async with to_listen(tmp_path, "0.0.0.0") as app:
        members = app.members()
        await members.keys.create("ci", "OWNER")
        await members.keys.revoke("ci")
        await members.add("ana", "OWNER")
        assert await is_refused(app)
        await members.accounts.set_password("ana", "a horse, a horse, my kingdom")
        assert not await is_refused(app)
        await members.add("bob", "OWNER")
        await members.accounts.disable("ana")
        assert await is_refused(app)


async def test_the_link_of_the_operator_is_printed_as_long_as_no_user_can_sign_in_without_it(
    tmp_path: Path,
) -> None:
    async with to_listen(tmp_path) as app:
        token = await operator_token(app, watched=False)
        assert token is not None
        signed_in = await app.members().sessions.redeem(token)
        assert signed_in is not None
        members = app.members()
        await members.add("ana", "OWNER")
        assert await operator_token(app, watched=False) is not None
        await members.accounts.set_password("ana", "a horse, a horse, my kingdom")
        assert await operator_token(app, watched=False) is None


async def test_a_key_is_a_way_in_too(tmp_path: Path) -> None:
    async with to_listen(tmp_path) as app:
        await app.members().keys.create("ci", "OWNER")
        assert await operator_token(app, watched=False) is None


@pytest.mark.parametrize(
    "settings",
    [
        {
            "oidc_issuer": "https://login.example.com",
            "oidc_client_id": "redrive",
            "server_url": "https://redrive.example.com",
        },
        {"server_proxies": ("127.0.0.1",), "server_forward_header": "X-Forwarded-User"},
    ],
    ids=["provider", "proxy"],
)
async def test_so_is_a_caller_that_signs_people_in(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with to_listen(tmp_path, **settings) as app:
        assert await operator_token(app, watched=False) is None
        assert await operator_token(app, watched=True) is not None


async def test_the_link_is_printed_for_a_terminal_on_this_machine_only(tmp_path: Path) -> None:
    async with to_listen(tmp_path) as app:
        await app.members().keys.create("ci", "OWNER")
        assert await operator_token(app, watched=True) is not None
    async with to_listen(tmp_path, "0.0.0.0") as app:
        assert await operator_token(app, watched=True) is None


def test_requests_that_the_database_has_failed_are_counted_w15(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        key = server.key("watch")
        _execute(tmp_path, "ALTER TABLE workers RENAME TO workers_of_another")
        for _ in range(2):
            answer = server.asked(request("GET", "/api/v1/workers", key))
            assert (status_of(answer), json_of(answer)["code"]) == (503, "database")
        _execute(tmp_path, "ALTER TABLE workers_of_another RENAME TO workers")
        assert b"\nredrive_store_failures_total 2.0\n" in server.asked(request("GET", "/metrics", key))


def _execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path / "work.db", isolation_level=None)) as connection:
        connection.execute(statement)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_step_that_blocks_the_worker_of_a_server_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    sign = tmp_path / "blocked"
    with served(tmp_path, server_worker="true", server_drain_sec="0.5", worker_grace_sec="0.5") as server:
        key = server.key("owner")
        client = server.connected()
        client.say(request("POST", "/api/v1/runs", key, {"work": "block", "payload": str(sign)}))
        wait_until(sign.exists)
        assert server.stop() == 1
        assert "step 'block' of run" in server.log
        assert "blocks its event loop" in server.log


def test_a_second_signal_interrupts_the_work_of_a_server(tmp_path: Path) -> None:
    sign = tmp_path / "started"
    with served(tmp_path, server_worker="true", server_drain_sec="1", worker_grace_sec="600") as server:
        client = server.connected()
        client.say(
            request("POST", "/api/v1/runs", server.key("owner"), {"work": "wait", "payload": str(sign)})
        )
        wait_until(sign.exists)
        client.socket.close()
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "worker.stopping" in server.log)
        assert server.stop() == 0
