"""A small local service that misbehaves on command, for the demos and the guides."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeVar

S = TypeVar("S", bound="FlakyService")

Answer = tuple[int, dict[str, str]]


class Request(NamedTuple):
    """`key` is the idempotency key, `body` the parsed JSON."""

    method: str
    path: str
    key: str
    body: Any


class FlakyService:
    """Answers 200 unless other answers are planned: `service.plan(503, 503)`. While `down`, always 503."""

    def __init__(self) -> None:
        self.url = ""
        self.down = False
        self.requests: list[str] = []
        self._planned: deque[Answer] = deque()

    def plan(self, *statuses: int, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._planned.extend((status, named) for status in statuses)

    def answer(self, request: Request) -> Answer:
        self.requests.append(f"{request.method} {request.path}")
        if self.down:
            return 503, {}
        return self._planned.popleft() if self._planned else (200, {})


@contextmanager
def running(service: S) -> Iterator[S]:
    """Run a service on a free port of the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet per answer

        def do_POST(self) -> None:
            self._respond(self.rfile.read(int(self.headers.get("content-length") or 0)))

        def do_GET(self) -> None:
            self._respond(b"")

        def _respond(self, body: bytes) -> None:
            key = self.headers.get("idempotency-key", "")
            request = Request(self.command, self.path, key, json.loads(body or "null"))
            status, headers = service.answer(request)
            answer = json.dumps({"status": status}).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def flaky_service() -> Iterator[FlakyService]:
    with running(FlakyService()) as service:
        yield service
