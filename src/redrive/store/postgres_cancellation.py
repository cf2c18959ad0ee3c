"""Ends the statements of cancelled callers on the server, then the connections on which they were sent.

A server that does not hear of the cancellation executes such a statement to its end, and commits it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CANCEL_TIMEOUT = 2.0
"""How long a server may take to confirm that it has ended a statement."""


class Cancellations:
    """Waits in the background: a caller with a deadline must not wait for a server that may be silent."""

    def __init__(self, throw_away: Callable[[Any], None]) -> None:
        self._throw_away = throw_away
        self._ending: set[asyncio.Task[None]] = set()

    def end(self, connection: Any) -> None:
        """End the statement that is executing on this connection, then the connection."""
        task = asyncio.create_task(self._end(connection))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def wait(self) -> None:
        """Wait until no cancelled statement is executing, at most CANCEL_TIMEOUT seconds."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def _end(self, connection: Any) -> None:
        """asyncpg sends a statement after the server has confirmed the end of the cancelled one."""
        try:
            with suppress(Exception):
                async with asyncio.timeout(CANCEL_TIMEOUT):
                    await connection.execute("SELECT 1")
        finally:
            self._throw_away(connection)
