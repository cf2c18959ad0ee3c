"""A small local service that misbehaves on command, for the demo and the examples."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FlakyService:
    """Answers 200 unless other answers were planned: `service.plan(503, 503)`. `down`: always 503."""

    def __init__(self) -> None:
        self.url = ""
        self.down = False
        self.requests: list[str] = []
        self._planned: deque[tuple[int, dict[str, str]]] = deque()

    def plan(self, *statuses: int, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._planned.extend((status, named) for status in statuses)

    def answer(self) -> tuple[int, dict[str, str]]:
        if self.down:
            return 503, {}
        return self._planned.popleft() if self._planned else (200, {})


@contextmanager
def flaky_service() -> Iterator[FlakyService]:
    """Run the service on a free port of the loopback interface."""
    service = FlakyService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self._respond()

        def do_GET(self) -> None:
            self._respond()

        def _respond(self) -> None:
            service.requests.append(f"{self.command} {self.path}")
            status, headers = service.answer()
            body = json.dumps({"status": status}).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet: the demo does the talking."""

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
