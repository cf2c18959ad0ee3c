"""Connections: the server cuts off silent, endless and deaf clients, and only these (security baseline)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from redrive.server import connection
from redrive.server.connection import HEAD_BYTES, PatientProtocol

SECONDS = 10.0
"""The time limit of a test, in seconds."""

SHORT = 0.05
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class Listener:
    """Responds with the names of the request headers, repeated a number of times."""

    def __init__(self, times: int = 1) -> None:
        self.requests = 0
        self.ended = asyncio.Event()
        self._times = times

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += 1
        while (await receive()).get("more_body"):
            pass
        names = b" ".join(name for name, _ in scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(self._times):
            await send({"type": "http.response.body", "body": names, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.ended.set()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[int]:
    """Serve `app` on this machine with our protocol, and return the port."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        config = uvicorn.Config(app, http=PatientProtocol, lifespan="off", log_config=None, ws="none")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([place]))
        try:
            yield place.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def caller(
    port: int, limit: int = 65_536
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def everything(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes the connection."""
    read = b""
    with suppress(ConnectionResetError):
        while piece := await asyncio.wait_for(reader.read(65_536), SECONDS):
            read += piece
    return read


@pytest.mark.parametrize(
    "said", [b"", b"GET", GET, GET + b"\r\n" + GET], ids=["nothing", "word", "head", "second"]
)
async def test_a_client_that_sends_no_request_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", SHORT)
    async with serving(Listener()) as port, caller(port) as (reader, writer):
        writer.write(said)
        assert (b"200 OK" in await everything(reader)) is said.endswith(b"\r\n" + GET)


async def test_a_client_that_sent_its_head_in_time_may_take_longer_for_the_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", SHORT)
    async with serving(Listener()) as port, caller(port) as (reader, writer):
        writer.write(CHUNKED)
        late = asyncio.Event()
        asyncio.get_running_loop().call_later(4 * SHORT, late.set)
        await late.wait()
        writer.write(b"0\r\n\r\n")
        assert await asyncio.wait_for(reader.readline(), SECONDS) == b"HTTP/1.1 200 OK\r\n"


async def test_a_head_that_is_too_long_is_refused_in_many_headers_and_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 3600.0)
    listener = Listener()
    many = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(HEAD_BYTES // 1000 + 1))
    one = b"X: " + b"x" * 4 * HEAD_BYTES
    async with serving(listener) as port:
        for said in (GET + many + b"\r\n", GET + one, b"GET /" + b"x" * 4 * HEAD_BYTES):
            async with caller(port) as (reader, writer):
                writer.write(said)
                assert b"200 OK" not in await everything(reader)
        async with caller(port) as (reader, writer):
            writer.write(GET + b"X: " + b"x" * (HEAD_BYTES // 2) + b"\r\n\r\n")
            assert await asyncio.wait_for(reader.readline(), SECONDS) == b"HTTP/1.1 200 OK\r\n"
    assert listener.requests == 1


async def test_trailers_after_the_body_are_not_headers() -> None:
    """A proxy in front of the server has not checked them."""
    async with serving(Listener()) as port, caller(port) as (reader, writer):
        writer.write(
            CHUNKED + b"1\r\nx\r\n0\r\nRemote-User: root\r\n\r\n" + GET + b"Connection: close\r\n\r\n"
        )
        told = await everything(reader)
    assert told.count(b"200 OK") == 2
    assert b"remote-user" not in told


async def test_a_client_that_does_not_read_the_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READING_SECONDS", SHORT)
    listener = Listener(times=20_000)
    async with serving(listener) as port, caller(port, limit=1) as (_, writer):
        writer.write(GET + b"X%s: y\r\n\r\n" % (b"x" * 10_000))
        await asyncio.wait_for(listener.ended.wait(), SECONDS)
