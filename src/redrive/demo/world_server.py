"""The outside world as an HTTP server on this machine: its services, their page, and a way to steer them.

Only this machine can reach it; pages of other sites cannot steer it through somebody's browser.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redrive.demo.acme.outside import SERVICES
from redrive.demo.control_page import page, style
from redrive.demo.path import ShippingZones
from redrive.demo.world import Request, World
from redrive.errors import InvalidValueError

HOST = "127.0.0.1"
MAX_BODY_BYTES = 65_536
IDLE_SECONDS = 60
POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


@contextmanager
def serving(world: World, zones: ShippingZones) -> Iterator[str]:
    """While it is entered, the world is at the address that it gives."""
    server = _Server((HOST, 0), _Handler)
    server.world, server.zones = world, zones
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    world: World
    zones: ShippingZones

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever goes away in the middle of something has a reason."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    timeout = IDLE_SECONDS
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        given = dict(parse_qsl(parts.query))
        service, _, rest = parts.path.lstrip("/").partition("/")
        if service in SERVICES:
            self._serve(service, f"/{rest}", given)
        elif not self._is_ours():
            self._say(403, "text/plain", b"this is not for other sites\n")
        elif parts.path == "/":
            self._say(200, "text/html; charset=utf-8", page(self.server.world, self.server.zones).encode())
        elif parts.path == "/style.css":
            self._say(200, "text/css", style())
        elif parts.path == "/control":
            self._json(200, self._told(given))
        else:
            self._say(404, "text/plain", b"there is nothing here\n")

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isascii() or not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._say(413, "text/plain", b"this is too long\n")
            return
        body = self.rfile.read(int(length))
        service, _, rest = self.path.lstrip("/").partition("/")
        if service in SERVICES:
            self._serve(service, f"/{rest}", _read(body))
        elif not self._is_ours():
            self._say(403, "text/plain", b"this is not for other sites\n")
        elif self.path == "/control":
            self._steer(_read(body))
        else:
            self._press(*self.path.lstrip("/").split("/"))

    # The services

    def _serve(self, service: str, path: str, body: dict[str, Any]) -> None:
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        key = self.headers.get("idempotency-key", "")
        answer = self.server.world.answer(Request(service, path, key, token, body))
        time.sleep(answer.seconds)
        if answer.status:
            self._json(answer.status, dict(answer.body))
        else:
            self.close_connection = True

    # Steering

    def _press(self, deed: str = "", what: str = "", *_: str) -> None:
        """A button of the page."""
        world, zones = self.server.world, self.server.zones
        deeds: dict[str, Callable[[], None]] = {
            "break": lambda: world.break_(what, by="person"),
            "repair": lambda: world.repair(what),
            "zones": zones.add_zone,
        }
        try:
            deeds[deed]()
        except (KeyError, InvalidValueError):
            self._say(404, "text/plain", b"there is nothing here\n")
            return
        self._say(303, "text/plain", b"", {"location": "/"})

    def _steer(self, wish: dict[str, Any]) -> None:
        """What drills ask for, as JSON."""
        world = self.server.world
        try:
            if "calm" in wish:
                world.calm(float(wish["calm"]))
            elif wish.get("state") == "up":
                world.repair(str(wish.get("service")), about=str(wish.get("about", "")))
            else:
                world.break_(
                    str(wish.get("service")),
                    wish.get("state"),
                    by="drill",
                    about=str(wish.get("about", "")),
                    after=int(wish.get("after", 0)),
                    seconds=float(wish.get("seconds", 60.0)),
                )
        except (InvalidValueError, TypeError, ValueError) as error:
            self._json(422, {"error": str(error)[:200]})
            return
        self._json(200, self._told({}))

    def _told(self, given: dict[str, str]) -> dict[str, Any]:
        world = self.server.world
        about = {"about": world.told(given["about"])} if "about" in given else {}
        return {"services": world.states(), "calm": world.is_calm, **about}

    def _is_ours(self) -> bool:
        """A browser says where a form comes from; another name for this machine may be somebody's trick."""
        port = self.server.server_port
        known = {f"{name}:{port}" for name in (HOST, "localhost")}
        origin = self.headers.get("origin")
        site = self.headers.get("sec-fetch-site", "none")
        if self.headers.get("host") not in known or (self.command == "POST" and site == "cross-site"):
            return False
        return self.command != "POST" or origin is None or origin.removeprefix("http://") in known

    def _json(self, status: int, value: dict[str, Any]) -> None:
        self._say(status, "application/json", json.dumps(value).encode())

    def _say(self, status: int, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        safe = {
            "content-security-policy": POLICY,
            "x-content-type-options": "nosniff",
            "cache-control": "no-store",
        }
        length = {"content-type": kind, "content-length": str(len(content))}
        for name, value in {**length, **safe, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "acme"

    def log_message(self, *_: object) -> None:
        """Quiet: the demo does the talking."""


def _read(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
