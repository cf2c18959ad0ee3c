"""A client that does as little as possible, because its cost must not count.

Each connection sends a request, waits for the whole response and repeats this until its turn ends.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from time import perf_counter
from typing import NamedTuple, cast

from bench.http.case import Case
from bench.work.servers import HOST

PATIENCE = 30.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Turn(NamedTuple):
    """Requests per second, and milliseconds until the response."""

    number: int
    rate: float
    half: float
    most: float


class Client:
    def __init__(self, port: int, case: Case, connections: int) -> None:
        self._port = port
        self._connections = connections
        self.case = case
        self.until = 0.0
        self.taken: list[float] = []
        self.statuses: Counter[int] = Counter()
        self._asking: list[_Connection] = []

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._connections):
            _, connection = await loop.create_connection(lambda: _Connection(self), HOST, self._port)
            self._asking.append(connection)

    async def turn(self, seconds: float) -> Turn:
        self.taken, self.statuses = [], Counter()
        begun = perf_counter()
        self.until = begun + seconds
        async with asyncio.timeout(seconds + PATIENCE):
            await asyncio.gather(*(each.ask_on() for each in self._asking))
        lasted = perf_counter() - begun
        self._check()
        taken = sorted(self.taken)
        half, most = (taken[int(len(taken) * part)] * 1e3 for part in (0.5, 0.99))
        return Turn(len(taken), len(taken) / lasted, half, most)

    def close(self) -> None:
        for each in self._asking:
            each.close()

    def _check(self) -> None:
        strange = {
            status: number for status, number in self.statuses.items() if status not in self.case.statuses
        }
        if strange:
            raise RuntimeError(f"answered with {strange}, and not with {sorted(self.case.statuses)}")


class _Connection(asyncio.Protocol):
    def __init__(self, client: Client) -> None:
        self._client = client
        self._received = b""
        self._wanted = 0
        self._asked_at = 0.0
        self._done: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop does not declare it

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionResetError("the server has hung up"))

    def ask_on(self) -> asyncio.Future[None]:
        """Send requests until the turn ends."""
        self._done = asyncio.get_running_loop().create_future()
        self._ask()
        return self._done

    def close(self) -> None:
        self._transport.close()

    def _ask(self) -> None:
        self._received, self._wanted = b"", 0
        request = self._client.case.next()
        self._asked_at = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._wanted:
            self._read_head()
        if self._wanted and len(self._received) >= self._wanted:
            self._take()

    def _read_head(self) -> None:
        end = self._received.find(b"\r\n\r\n")
        if end >= 0:
            length = _LENGTH.search(self._received, 0, end + 2)
            self._wanted = end + 4 + (int(length[1]) if length else 0)

    def _take(self) -> None:
        now = perf_counter()
        self._client.taken.append(now - self._asked_at)
        self._client.statuses[int(self._received[9:12])] += 1
        if now < self._client.until:
            self._ask()
        else:
            self._done.set_result(None)
