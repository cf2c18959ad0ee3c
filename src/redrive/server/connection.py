"""Connection limits: time and size of request headers, and time to read the response."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS = 10.0
HEAD_BYTES = 65_536
READING_SECONDS = 30.0


class PatientProtocol(HttpToolsProtocol):
    """Closes connections of slow clients, so that they can't block others."""

    _head_deadline: asyncio.TimerHandle | None = None
    _reading_deadline: asyncio.TimerHandle | None = None
    _head_is_whole = False
    _head_bytes = 0
    _pending_bytes = 0
    """Bytes since the last callback of the parser, which buffers a whole header before it calls."""
    _cycles: tuple[RequestResponseCycle, ...] = ()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadlines()
        for cycle in self._cycles:  # of pipelined requests, uvicorn notifies only the last one
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()
        super().connection_lost(exc)

    # Callbacks of the parser

    def data_received(self, data: bytes) -> None:
        if all(cycle.response_complete for cycle in self._cycles):
            self._expect_head()
        self._pending_bytes += len(data)
        super().data_received(data)
        if self._pending_bytes > HEAD_BYTES:
            self._cut_off()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_is_whole = False
        self._head_bytes = 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignore trailers after the body: neither a proxy nor the access checks have seen them."""
        if not self._head_is_whole:
            self._count(len(name) + len(value))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_is_there()
        self._name_host_of_target()
        super().on_headers_complete()
        self._cycles = (*(cycle for cycle in self._cycles if not cycle.response_complete), self.cycle)

    def _name_host_of_target(self) -> None:
        """Let the target of the request name the host, if it is a whole URL (RFC 9112, section 3.2.2).

        Otherwise a request could name two hosts, and only one of them would be checked.
        """
        if self.url.startswith(b"/") or self.url == b"*":
            return
        target = urlsplit(self.url)
        if target.scheme.lower() not in (b"http", b"https") or not target.netloc:
            raise ValueError("the target of the request is not a path or a URL")  # answered with 400
        self.headers[:] = [(name, value) for name, value in self.headers if name != b"host"]
        self.headers.append((b"host", target.netloc))

    def on_body(self, body: bytes) -> None:
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending_bytes = 0
        super().on_message_complete()

    def _expect_head(self) -> None:
        if self._head_deadline is None:
            self._head_deadline = self.loop.call_later(HEAD_SECONDS, self._cut_off)

    def _head_is_there(self) -> None:
        self._head_is_whole = True
        self._pending_bytes = 0
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _count(self, number: int) -> None:
        self._head_bytes += number
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("the head of the request is too long")  # the parser responds with 400

    # Callbacks of the transport

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading_deadline is not None and not self.transport.is_closing():
            self._reading_deadline.cancel()
            self._reading_deadline = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._expect_reader()

    def _expect_reader(self) -> None:
        """Limit the time that closing waits for the client to read the response."""
        if self._reading_deadline is None:
            self._reading_deadline = self.loop.call_later(READING_SECONDS, self._cut_off)

    def _forget_deadlines(self) -> None:
        for deadline in (self._head_deadline, self._reading_deadline):
            if deadline is not None:
                deadline.cancel()

    def _cut_off(self) -> None:
        self.transport.abort()
