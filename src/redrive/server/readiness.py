"""Readiness: can the database be written? Asked by everybody, found out once a second at most."""

from __future__ import annotations

import asyncio

from redrive.app import Redrive
from redrive.errors import StoreError

TRUSTED_FOR = 1.0
SECONDS = 5.0


class Readiness:
    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._failure: StoreError | None = None

    async def check(self) -> None:
        """StoreError, or nothing."""
        async with self._lock:
            if self._app.clock.monotonic() >= self._until:
                self._failure = await self._probed()
                self._until = self._app.clock.monotonic() + TRUSTED_FOR
            if self._failure is not None:
                raise self._failure

    async def _probed(self) -> StoreError | None:
        """Kept too: while the database is silent, each of those who ask would wait for all before them."""
        try:
            async with asyncio.timeout(SECONDS):
                await self._app.store.probe()
        except TimeoutError:
            return StoreError("the database does not answer")
        except StoreError as error:
            return error
        return None
