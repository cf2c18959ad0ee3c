"""A proxy in front of PostgreSQL that cuts the connection when a commit is done and unacknowledged.

After it has forwarded the statement, it waits for the first byte of the answer and drops it together with the
connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.crash.wire_protocol import WireProtocol, known_texts
from tests.servers import HOST

_CHUNK = 65536


class Proxy:
    def __init__(self, port: int, schema: str) -> None:
        self._upstream = port
        self._texts = known_texts(schema)
        self._server: asyncio.Server | None = None
        self._wanted: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.cut: Counter[str] = Counter()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def cut_after(self, statement: str) -> None:
        """Cut the next connection on which this statement is committed."""
        self._wanted.add(statement)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server = await asyncio.open_connection(HOST, self._upstream)
        except OSError:
            writer.transport.abort()
            return
        await self._pump(reader, writer, *server)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        answered = asyncio.Event()
        answered.set()
        ways = [
            asyncio.create_task(self._forward(reader, server_writer, answered)),
            asyncio.create_task(_answer(server_reader, writer, answered)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.transport.abort()
            server_writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: asyncio.Event
    ) -> None:
        talk = WireProtocol(self._texts)
        while chunk := await reader.read(_CHUNK):
            for statement in talk.committed(chunk) & self._wanted:
                self._wanted.discard(statement)
                self.cut[statement] += 1
                answers.clear()
            writer.write(chunk)
            await writer.drain()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: asyncio.Event) -> None:
    while chunk := await reader.read(_CHUNK):
        if not answers.is_set():
            return
        writer.write(chunk)
        await writer.drain()
