"""Setting somebody's password: only where the database is. Over HTTP people set their own."""

from __future__ import annotations

import asyncio

from redrive.cli.client import Client
from redrive.cli.given import Given
from redrive.errors import InvalidValueError
from redrive.model.identity import HOME, OPERATOR


def refuse_from_afar(client: Client) -> None:
    if client.server is not None:
        raise InvalidValueError(
            "a password can only be set where the database is; without --password, `redrive member link` "
            "gives a link by which they sign in and set their own"
        )


def set_password(given: Given, user_id: str, secret: str) -> None:
    """On the database of the settings, as its operator."""
    asyncio.run(_set(given, user_id, secret))


async def _set(given: Given, user_id: str, secret: str) -> None:
    from redrive.app import Redrive  # takes longer than all the rest to load, so only where it is needed

    async with Redrive(settings=given.settings(), log=False) as app:
        directory = await app.directory(org=given.org or HOME, by=OPERATOR)
        await directory.accounts.set_password(user_id, secret)
