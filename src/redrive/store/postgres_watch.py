"""Notices that a server has become silent while statements wait for its answer.

A frozen server keeps its connections open, and TCP reports nothing. So while a connection has been lent for
longer than PATIENCE seconds, its server must answer a new login now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 3.0
CHECK_INTERVAL = 1.0


class Watch:
    """`answers` asks the server at an address for a sign of life, `leave` gives its connections up."""

    def __init__(
        self, answers: Callable[[str], Awaitable[bool]], leave: Callable[[str, list[Any]], None]
    ) -> None:
        self._answers = answers
        self._leave = leave
        self._lent: dict[Any, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def add(self, connection: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Watch a lent connection. This runs once per statement, so it does not look up the event loop."""
        self._lent[connection] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(CHECK_INTERVAL, self._check)

    def remove(self, connection: Any) -> None:
        self._lent.pop(connection, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()
        self._timer = self._asking = None

    def _check(self) -> None:
        """Ask the servers that are due; check again later, unless nothing is lent."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CHECK_INTERVAL, self._check) if self._lent else None
        due = loop.time() - PATIENCE
        addresses = {connection.address for connection, since in self._lent.items() if since <= due}
        if addresses and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask(addresses))

    async def _ask(self, addresses: set[str]) -> None:
        for address in addresses:
            answers = await self._answers(address)
            lent = [connection for connection in self._lent if connection.address == address]
            if not answers:
                self._leave(address, lent)
                continue
            now = asyncio.get_running_loop().time()
            self._lent.update(dict.fromkeys(lent, now))
