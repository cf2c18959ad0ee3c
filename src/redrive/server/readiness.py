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

    async def check(self) -> None:
        """StoreError, or nothing."""
        async with self._lock:
            now = self._app.clock.monotonic()
            if now < self._until:
                return
            try:
                async with asyncio.timeout(SECONDS):
                    await self._app.store.probe()
            except TimeoutError:
                raise StoreError("the database does not answer") from None
            self._until = now + TRUSTED_FOR
