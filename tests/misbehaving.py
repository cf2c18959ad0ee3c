"""A server that misbehaves on request: a real one, on loopback, on a free port.

    with MisbehavingServer() as server:
        server.on("/busy", answer(503, {"Retry-After": "3"}))   # for every request of a path
        server.script(reset(), close(), answer(200))            # for the next requests, with any path
        server.otherwise(silence())                             # for all others (default: 200 and {})
        ...
        assert [request.path for request in server.requests] == [...]

Two more addresses need no server: `refused_port()` and `full_backlog()`.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import io
import itertools
import json
import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
TLS_HANDSHAKE = b"\x16"

Headers = Mapping[str, str]


@dataclass(frozen=True)
class Request:
    """A request as the server received it. Header names are in lower case; `connection` counts from 1."""

    method: str
    path: str
    headers: Headers
    body: bytes
    connection: int


@dataclass(frozen=True)
class Exchange:
    """A request and its connection, in the hands of a behavior."""

    connection: socket.socket
    closing: threading.Event
    request: Request | None = None

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def pause(self, seconds: float | None) -> None:
        """Wait, but no longer than the server runs and the client stays connected."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            readable = selector.select(seconds)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise ConnectionAbortedError
        if readable and self.closing.wait(seconds):  # the client has sent more data
            raise ConnectionAbortedError


@dataclass(frozen=True)
class Behavior:
    play: Callable[[Exchange], None]
    reads_request: bool = True
    keeps_connection: bool = False


def answer(status: int = 200, headers: Headers | None = None, body: bytes | str = b"{}") -> Behavior:
    """Send a proper response; the connection stays usable."""
    content = body.encode() if isinstance(body, str) else body
    data = _head(status, {"Content-Length": str(len(content)), **(headers or {})})
    bodiless = status in (204, 304) or status < 200

    def play(exchange: Exchange) -> None:
        head_only = bodiless or (exchange.request is not None and exchange.request.method == "HEAD")
        exchange.send(data if head_only else data + content)

    return Behavior(play, keeps_connection=True)


def answer_json(value: object, status: int = 200, headers: Headers | None = None) -> Behavior:
    return answer(status, headers, json.dumps(value))


def silence(seconds: float | None = None) -> Behavior:
    """Send nothing for this long (None: forever), then a proper response."""
    return _after_a_pause(seconds, answer())


def drip(pause: float, body: bytes = b'{"slow": true}', status: int = 200) -> Behavior:
    """Send the body byte by byte, with a pause before each byte."""

    def play(exchange: Exchange) -> None:
        exchange.send(_head(status, {"Content-Length": str(len(body))}))
        for byte in body:
            exchange.pause(pause)
            exchange.send(bytes([byte]))

    return Behavior(play, keeps_connection=True)


def reset() -> Behavior:
    """Read the request, then reset the connection (RST)."""
    return Behavior(_reset)


def reset_on_accept() -> Behavior:
    """Reset the connection before reading anything. Works in a script or as `otherwise`."""
    return Behavior(_reset, reads_request=False)


def close() -> Behavior:
    """Read the request, then close the connection without a response."""
    return Behavior(lambda exchange: None)


def close_on_accept() -> Behavior:
    return Behavior(lambda exchange: None, reads_request=False)


def raw(data: bytes) -> Behavior:
    """Read the request, send exactly these bytes, and close."""
    return Behavior(lambda exchange: exchange.send(data))


def garbage() -> Behavior:
    return raw(b"\x00\xff this is not HTTP at all \xfe\r\n\r\n")


def invalid_json(status: int = 200) -> Behavior:
    return answer(status, {"Content-Type": "application/json"}, b'{"cut": "off')


def truncated(sent: int = 5, promised: int = 100, status: int = 200) -> Behavior:
    """Announce more bytes than it sends, then close."""
    headers = {"Content-Length": str(promised), "Content-Type": "application/json"}
    return raw(_head(status, headers) + b"x" * sent)


def truncated_chunks(status: int = 200) -> Behavior:
    """Send a chunked body that ends in the middle of a chunk."""
    headers = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    return raw(_head(status, headers) + b"40\r\nonly this much")


def broken_encoding() -> Behavior:
    """Announce gzip and send something else."""
    return answer(200, {"Content-Encoding": "gzip"}, b"not gzip at all")


def huge_header(size: int = 200_000) -> Behavior:
    return raw(_head(200, {"X-Huge": "a" * size, "Content-Length": "2"}) + b"{}")


def redirect_loop() -> Behavior:
    """Redirect every path to itself."""

    def play(exchange: Exchange) -> None:
        path = exchange.request.path if exchange.request else "/"
        exchange.send(_head(302, {"Location": path, "Content-Length": "0"}))

    return Behavior(play, keeps_connection=True)


def _after_a_pause(seconds: float | None, then: Behavior) -> Behavior:
    def play(exchange: Exchange) -> None:
        exchange.pause(seconds)
        then.play(exchange)

    return Behavior(play, keeps_connection=then.keeps_connection)


def _reset(exchange: Exchange) -> None:
    # Closing with a linger time of zero sends RST instead of FIN.
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _head(status: int, headers: Headers) -> bytes:
    reason = http.client.responses.get(status, "Unusual")
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class MisbehavingServer:
    """A server on loopback; one thread per connection."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._listener = socket.create_server((HOST, 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        self._script: deque[Behavior] = deque()
        self._paths: dict[str, Behavior] = {}
        self._otherwise = answer()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def open_connections(self) -> int:
        with self._changed:
            return len(self._open)

    def on(self, path: str, behavior: Behavior) -> None:
        self._paths[path] = behavior

    def script(self, *behaviors: Behavior) -> None:
        self._script.extend(behaviors)

    def otherwise(self, behavior: Behavior) -> None:
        self._otherwise = behavior

    def forget(self) -> None:
        """Forget the requests received and every instruction."""
        with self._changed:
            self.requests.clear()
            self._script.clear()
            self._paths.clear()
            self._otherwise = answer()

    def wait_for(self, count: int, timeout: float = 5.0) -> bool:
        """Wait until the server has received this many requests; return False at the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= count, timeout)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closing.set()
        _shut(self._listener)
        self._threads[0].join()
        with self._changed:
            for connection in self._open:
                _shut(connection)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        for number in itertools.count(1):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self.connections = number
                self._open.add(connection)
            self._start(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        reader = connection.makefile("rb")
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while self._exchange(connection, reader, number):
                pass
        with self._changed:
            self._open.discard(connection)
            reader.close()
            connection.close()

    def _exchange(self, connection: socket.socket, reader: io.BufferedReader, number: int) -> bool:
        """Play one exchange; return whether the connection can carry another."""
        behavior = self._take(on_accept=True)
        if behavior is not None:
            behavior.play(Exchange(connection, self._closing))
            return False
        request = _read_request(connection, reader, number)
        if request is None:
            return False
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        behavior = self._take(on_accept=False) or self._paths.get(_path_of(request), self._otherwise)
        behavior.play(Exchange(connection, self._closing, request))
        return behavior.keeps_connection and request.headers.get("connection", "").lower() != "close"

    def _take(self, *, on_accept: bool) -> Behavior | None:
        with self._changed:
            following = self._script[0] if self._script else None
            if following is None:
                return self._otherwise if on_accept and not self._otherwise.reads_request else None
            return None if on_accept and following.reads_request else self._script.popleft()


def _path_of(request: Request) -> str:
    return request.path.partition("?")[0]


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _read_request(connection: socket.socket, reader: io.BufferedReader, number: int) -> Request | None:
    first = reader.peek(1)[:1]
    if first == TLS_HANDSHAKE:
        connection.sendall(_head(400, {"Content-Length": "0"}))  # in plain text, as web servers do
        return None
    words = reader.readline(65536).decode("latin-1").split()
    if len(words) < 2:
        return None
    headers = {name.lower(): value for name, value in http.client.parse_headers(reader).items()}
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Request(words[0], words[1], headers, _read_body(reader, headers), number)


def _read_body(reader: io.BufferedReader, headers: Headers) -> bytes:
    if "chunked" in headers.get("transfer-encoding", ""):
        return b"".join(_read_chunks(reader))
    return reader.read(int(headers.get("content-length", "0")))


def _read_chunks(reader: io.BufferedReader) -> Iterator[bytes]:
    while size := int(reader.readline().partition(b";")[0] or b"0", 16):
        yield reader.read(size)
        reader.readline()
    while reader.readline().strip():
        pass


@cache
def refused_port() -> int:
    """Return a port of this machine that refuses every connection; it is taken, so no process can listen."""
    holder = socket.socket()
    holder.bind((HOST, 0))
    atexit.register(holder.close)
    return int(holder.getsockname()[1])


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """Return a port that neither accepts nor refuses connections, so that connecting times out."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind((HOST, 0))
        listener.listen(0)
        for _ in range(16):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield listener.getsockname()[1]
