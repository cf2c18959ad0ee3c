"""Requests sent straight to the application, without an HTTP client: the tests send many thousands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from starlette.types import ASGIApp, Message
from tests.server.house import BASE

HOST = BASE.removeprefix("http://")
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Reply(NamedTuple):
    status: int
    headers: tuple[tuple[str, str], ...]
    content: bytes

    @property
    def everything(self) -> bytes:
        """Everything that the client receives: headers and body."""
        return repr(self.headers).encode() + self.content

    def json(self) -> Any:
        return json.loads(self.content)


class Inquiry(NamedTuple):
    """A request. `body` is JSON, or None for an empty body."""

    method: str
    path: str
    body: Any = None
    query: Mapping[str, str] = NOTHING
    headers: Mapping[str, str] = NOTHING

    async def ask(self, api: ASGIApp, address: str, **credentials: str) -> Reply:
        content = b"" if self.body is None else json.dumps(self.body).encode()
        told = {"host": HOST, **self.headers, **credentials}
        if content:
            told |= {"content-type": "application/json", "content-length": str(len(content))}
        return await send(api, self.method, quote(self.path), urlencode(self.query), told, content, address)


async def send(
    api: ASGIApp,
    method: str,
    raw_path: str,
    query: str,
    headers: dict[str, str],
    content: bytes,
    address: str = "127.0.0.1",
) -> Reply:
    """Send a request. Of an endless response, return the first piece and disconnect."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": (address, 1234),
        "server": ("localhost", 8400),
    }
    exchange = _Exchange(content)
    await api(scope, exchange.receive, exchange.send)
    return exchange.reply()


class _Exchange:
    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self._gone = asyncio.Event()
        self._start: Message = {}
        self._pieces: list[bytes] = []

    async def receive(self) -> Message:
        if self._content is None:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._pieces.append(message.get("body", b""))
            self._gone.set()

    def reply(self) -> Reply:
        headers = [(name.decode(), value.decode("latin-1")) for name, value in self._start["headers"]]
        return Reply(self._start["status"], tuple(headers), b"".join(self._pieces))
