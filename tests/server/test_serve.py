"""Serving: beyond this machine only when somebody could be asked who they are (security baseline)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.server.house import new_app

from redrive.app import Redrive
from redrive.errors import InvalidValueError
from redrive.server.serve import refuse_open_address


@asynccontextmanager
async def to_listen(path: Path, host: str) -> AsyncIterator[Redrive]:
    app = new_app(f"sqlite:///{path}/work.db", server_host=host)
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
async def test_nobody_else_may_before_somebody_can_sign_in(tmp_path: Path, host: str) -> None:
    async with to_listen(tmp_path, host) as app:
        assert await is_refused(app)
        await (await app.directory()).keys.create("ci", "VIEWER")
        assert not await is_refused(app)


async def test_a_credential_that_does_not_hold_is_nobodys(tmp_path: Path) -> None:
    """A key that is revoked, a member without a password, one that is disabled."""
    async with to_listen(tmp_path, "0.0.0.0") as app:
        directory = await app.directory()
        await directory.keys.create("ci", "OWNER")
        await directory.keys.revoke("ci")
        await directory.members.add("ana", "OWNER")
        assert await is_refused(app)
        await directory.accounts.set_password("ana", "a horse, a horse, my kingdom")
        assert not await is_refused(app)
        await directory.members.add("bob", "OWNER")
        await directory.accounts.disable("ana")
        assert await is_refused(app)
