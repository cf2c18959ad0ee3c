"""`redrive serve` in a separate process, and clients that write raw bytes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redrive.app import Redrive

SECONDS = 20.0
"""The time limit of a test, in seconds."""

MODULE = """
import asyncio
import time
from pathlib import Path

from redrive import Redrive
from redrive.settings import Settings
from redrive.server import connection, serve

connection.HEAD_SECONDS = {client_seconds}
connection.READING_SECONDS = {client_seconds}
serve.KEEP_ALIVE = {keep_alive}
app = Redrive(settings=Settings.load(), durable=False)

@app.task
async def block(sign):
    Path(sign).touch()
    while True:
        time.sleep(1)

@app.task
async def wait(sign):
    Path(sign).touch()
    await asyncio.sleep(3600)

@app.task
async def greet(name=None):
    return f"hello {{name}}"
"""


class Served:
    """A running server. It waits `client_seconds` for its clients."""

    def __init__(
        self, path: Path, *, client_seconds: float = 10.0, keep_alive: int = 15, **settings: Any
    ) -> None:
        self._path = path
        self._clients: list[Client] = []
        (path / "served_of_test.py").write_text(
            MODULE.format(client_seconds=client_seconds, keep_alive=keep_alive)
        )
        given = {"database_url": f"sqlite:///{path}/work.db", "server_port": "0", **settings}
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}
        self._environment = clean | {f"REDRIVE_{name.upper()}": str(value) for name, value in given.items()}
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "redrive.cli", "serve", "served_of_test:app"]
        self.process = subprocess.Popen(
            command, cwd=self._path, env=self._environment, stderr=subprocess.PIPE, text=True
        )
        self.log = ""
        while not (found := re.search(r"Redrive is at http://127\.0\.0\.1:(\d+)", self.log)):
            self._read_line()
        self.port = int(found[1])
        self._reader = threading.Thread(target=self._read_lines)
        self._reader.start()

    def _read_line(self) -> None:
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line, f"the server has ended: {self.log}"
        self.log += line

    def _read_lines(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.log += line

    @property
    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    @property
    def sockets(self) -> int:
        """Count the sockets that the server has open."""
        open_files = Path(f"/proc/{self.process.pid}/fd").iterdir()
        return sum(_target(each).startswith("socket:") for each in open_files)

    def key(self, name: str, role: str = "OWNER") -> str:
        return asyncio.run(self._key(name, role))

    async def _key(self, name: str, role: str) -> str:
        app = Redrive(self._environment["REDRIVE_DATABASE_URL"], log=False)
        try:
            return (await app.members().keys.create(name, role)).text
        finally:
            await app.close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(SECONDS)
        self._reader.join()
        return code

    def close(self) -> None:
        for client in self._clients:
            client.socket.close()
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)

    def connected(self, *, narrow: bool = False) -> Client:
        client = Client(self.port, narrow=narrow)
        self._clients.append(client)
        return client

    def asked(self, text: bytes) -> bytes:
        """Send raw bytes and return the status and everything received until the end of the response."""
        with self.connected() as client:
            client.say(text)
            return client.answer()


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # the server has closed the connection
        return ""


@contextmanager
def served(path: Path, **settings: Any) -> Iterator[Served]:
    server = Served(path, **settings)
    try:
        yield server
    finally:
        server.close()


class Client:
    """A connection. `narrow`: the kernel buffers little for a client that does not read."""

    def __init__(self, port: int, *, narrow: bool = False) -> None:
        self.socket = socket.socket()
        if narrow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(SECONDS)
        self.socket.connect(("127.0.0.1", port))
        self._rest = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, text: bytes) -> None:
        self.socket.sendall(text)

    def try_to_say(self, text: bytes) -> bool:
        try:
            self.socket.sendall(text)
        except OSError:
            return False
        return True

    def answer(self) -> bytes:
        """Read one complete response: the head, and as many body bytes as it announces."""
        self._read_until(lambda text: b"\r\n\r\n" in text)
        head, _, _ = self._rest.partition(b"\r\n\r\n")
        found = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        length = int(found[1]) if found else 0
        self._read_until(lambda text: len(text) >= len(head) + 4 + length)
        whole, self._rest = self._rest[: len(head) + 4 + length], self._rest[len(head) + 4 + length :]
        return whole

    def wait_for(self, text: bytes) -> None:
        self._read_until(lambda seen: text in seen)

    def _read_until(self, enough: Any) -> None:
        while not enough(self._rest):
            more = self.socket.recv(65_536)
            assert more, f"the connection was closed after {self._rest[-200:]!r}"
            self._rest += more

    def rest(self) -> bytes:
        """Read until the server closes or resets the connection."""
        try:
            while more := self.socket.recv(65_536):
                self._rest += more
        except ConnectionError:
            pass
        return self._rest


def request(
    method: str, path: str, key: str | None = None, body: Any = None, headers: dict[str, str] | None = None
) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    told = {"Host": "localhost", **(headers or {})}
    if key is not None:
        told["Authorization"] = f"Bearer {key}"
    if body is not None:
        told |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def json_of(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])
