"""Notifications over NOTIFY that a queue has work. One may get lost, but a listener always recovers.

Redrive sends at most one notification per queue in QUIET seconds, and delays none for longer than that. A
listener has its own connection. If that is lost or does not answer, the listener opens a new one and reports
"" (any queue), because it may have missed notifications in the meantime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any

from redrive.clock import Clock
from redrive.errors import StoreError

QUIET = 0.005
FIRST_DELAY = 0.1
MAX_DELAY_SECONDS = 5.0
PING_INTERVAL = 15.0
PING_TIMEOUT = 5.0
CLOSE_TIMEOUT = 2.0
MAX_NAME_LENGTH = 63
"""PostgreSQL truncates longer names."""

NOTIFY = """SELECT pg_catalog.pg_notify($1, queue)
FROM pg_catalog.unnest(CAST($2 AS text[])) AS queue"""

OnNotification = Callable[[str], None]


def channel_of(schema: str) -> str:
    name = f"redrive_{schema}"
    if len(name.encode()) <= MAX_NAME_LENGTH:
        return name
    return f"redrive_{sha256(schema.encode()).hexdigest()[:32]}"


class Announcer:
    """Sends notifications in the background: the first immediately, later ones after QUIET seconds."""

    def __init__(self, send: Callable[[list[str]], Awaitable[object]], clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._waiting: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None

    def announce(self, queues: Iterable[str]) -> None:
        self._waiting.update(dict.fromkeys(queues))
        if self._waiting and not self._is_sending():
            self._sending = asyncio.create_task(self._send_all())

    async def close(self) -> None:
        if self._sending is not None and self._is_sending():
            await asyncio.wait({self._sending}, timeout=CLOSE_TIMEOUT)
            await stop(self._sending)
        self._sending = None

    def _is_sending(self) -> bool:
        task = self._sending
        return task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()

    async def _send_all(self) -> None:
        while self._waiting:
            queues, self._waiting = list(self._waiting), {}
            with suppress(StoreError):
                await self._send(queues)
            await self._clock.sleep(QUIET)


class Listener:
    """Listens until it is stopped, and reconnects whenever the connection is lost."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], channel: str, heard: OnNotification, clock: Clock
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._heard = heard
        self._clock = clock
        self._delay = FIRST_DELAY

    async def run(self) -> None:
        while True:
            with suppress(Exception):  # after any error, the worker must listen again
                await self._listen()
            await self._clock.sleep(self._delay)
            self._delay = min(self._delay * 2, MAX_DELAY_SECONDS)

    async def _listen(self) -> None:
        connection = await self._connect()
        try:
            await connection.add_listener(self._channel, self._notified)
            self._delay = FIRST_DELAY
            self._heard("")
            await _until_lost(connection)
        finally:
            await connection.close()

    def _notified(self, _connection: object, _process: int, _channel: str, queue: str) -> None:
        self._heard(queue)


async def _until_lost(connection: Any) -> None:
    """Wait until a connection is lost. A silent network does not report that, so it is pinged regularly."""
    lost = asyncio.Event()
    connection.add_termination_listener(lambda _: lost.set())
    while not connection.is_closed():
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_INTERVAL):  # wait_for swallows a cancellation that comes with it
                await lost.wait()
            return
        await connection.execute("SELECT 1", timeout=PING_TIMEOUT)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
