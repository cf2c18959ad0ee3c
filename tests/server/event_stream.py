"""Listening to a stream of events over ASGI, as a client does that reads it while it comes.

async with listening(house, key) as stream:
    event = await stream.next()
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.server.house import House

SECONDS = 20.0
"""The time limit of a test, in seconds."""

EVENTS = "/api/v1/events"


class Event(NamedTuple):
    """An event of the stream. An event without a kind is a comment."""

    kind: str
    id: int | None
    data: Any
    text: str


class Stream:
    """Reads a stream event by event. A client that stops reading receives no more data."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.reads = True
        self.everything = b""
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._asked = False
        self._rest = b""

    async def receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if not self.reads:
            await asyncio.Event().wait()
        await self._messages.put(message)

    def leave(self) -> None:
        self._gone.set()

    def ended(self) -> None:
        self._messages.put_nowait(None)

    async def begin(self) -> None:
        start = await self._message()
        assert start is not None
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}

    async def body(self) -> Any:
        """Return the JSON body of a response that is not a stream."""
        message = await self._message()
        assert message is not None
        return json.loads(message["body"])

    async def next(self, kind: str | None = None) -> Event | None:
        """Return the next event, or the next event of a kind; None at the end of the stream."""
        while True:
            event = await self._next()
            if event is None or kind is None or event.kind == kind:
                return event

    async def end(self) -> None:
        """Read until the stream ends."""
        async with asyncio.timeout(SECONDS):
            while await self._next():
                pass

    async def _next(self) -> Event | None:
        while b"\n\n" not in self._rest:
            message = await self._message()
            if message is None:
                return None
            self._rest += message["body"]
            self.everything += message["body"]
        text, _, self._rest = self._rest.partition(b"\n\n")
        return _parsed(text.decode())

    async def _message(self) -> dict[str, Any] | None:
        return await asyncio.wait_for(self._messages.get(), SECONDS)


def _parsed(text: str) -> Event:
    fields = dict(line.split(": ", 1) for line in text.split("\n") if not line.startswith(":"))
    data = json.loads(fields["data"]) if "data" in fields else None
    return Event(fields.get("event", ""), int(fields["id"]) if "id" in fields else None, data, text)


@asynccontextmanager
async def listening(
    house: House, headers: dict[str, str], query: str = "", path: str = EVENTS
) -> AsyncIterator[Stream]:
    stream = Stream()
    task = asyncio.create_task(_requested(house, stream, headers, path, query))
    try:
        await stream.begin()
        yield stream
    finally:
        stream.leave()
        stream.reads = True
        await asyncio.wait_for(task, SECONDS)


async def _requested(house: House, stream: Stream, headers: dict[str, str], path: str, query: str) -> None:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost:8400")]
        + [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1234),
        "server": ("localhost", 8400),
    }
    try:
        await house.api(scope, stream.receive, stream.send)
    finally:
        stream.ended()


def bearing(key: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", **more}
