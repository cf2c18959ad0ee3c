"""A broken or hostile server: it sends the same bytes in response to every request."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

SECONDS = 60.0


class Strange:
    """The server. `requests` has the heads of all requests."""

    def __init__(self) -> None:
        self.answer = b""
        self.requests: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def says(self, status: int, body: bytes | object, *headers: str) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Strange", f"Content-Length: {len(text)}", *headers]
        self.answer = "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + text

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(SECONDS)

    def _serve(self) -> None:
        with suppress(OSError):  # the server has closed it
            while True:
                connection, _ = self._socket.accept()
                with connection, suppress(OSError):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(SECONDS)
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65_536)
        self.requests.append(head.decode("latin-1"))
        connection.sendall(self.answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):  # unread bytes would reset the connection
            pass


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch, redrive: object) -> Iterator[Strange]:
    """Let commands call the server, with a key that must not appear anywhere."""
    server = Strange()
    monkeypatch.setenv("REDRIVE_SERVER", server.url)
    monkeypatch.setenv("REDRIVE_API_KEY", "rdk_canary")
    yield server
    server.close()
