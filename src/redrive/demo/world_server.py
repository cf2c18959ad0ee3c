"""The outside world as an HTTP server: its services, a page to break and repair them, and an API for drills.

Only this machine can reach it, and pages of other sites can't control it through the user's browser.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from jinja2 import Environment, StrictUndefined, Template

from redrive.demo.acme.services import SERVICES
from redrive.demo.folder import ShippingZones
from redrive.demo.world import FAILING, REFUSING, SLOW, STOPPED, UP, USUAL_FAULT, Request, World
from redrive.errors import InvalidValueError

HOST = "127.0.0.1"
MAX_BODY_BYTES = 65_536
FROM_OTHER_SITE = b"other sites may not use this page\n"
NOT_FOUND = b"there is nothing at this address\n"
IDLE_SECONDS = 60
POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

PURPOSES = {
    "payments": "charges cards",
    "carrier": "prints parcel labels",
    "mail": "sends email",
    "identity": "manages accounts and keys",
    "supplier": "lists products",
    "analytics": "computes figures for reports",
}
CONDITIONS = {
    UP: "works",
    FAILING: "answers every request with 503",
    STOPPED: "is stopped: connections break",
    SLOW: "takes three seconds to answer",
    REFUSING: "rejects Acme's credential",
}
BUTTONS = {
    FAILING: "Make it fail",
    STOPPED: "Stop it",
    SLOW: "Slow it down",
    REFUSING: "Revoke Acme's credential",
}


@contextmanager
def serving(world: World, zones: ShippingZones) -> Iterator[str]:
    """Serve the world during the block, at the yielded URL."""
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
        """Ignore errors: a client may disconnect at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    timeout = IDLE_SECONDS
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        service, _, rest = parts.path.lstrip("/").partition("/")
        if service in SERVICES:
            self._serve(service, f"/{rest}", query)
        elif not self._is_same_site():
            self._send(403, "text/plain", FROM_OTHER_SITE)
        elif parts.path == "/":
            page = render_page(self.server.world, self.server.zones)
            self._send(200, "text/html; charset=utf-8", page.encode())
        elif parts.path == "/style.css":
            self._send(200, "text/css", (files("redrive.demo") / "world.css").read_bytes())
        elif parts.path == "/control":
            self._send_json(200, self._status(query))
        else:
            self._send(404, "text/plain", NOT_FOUND)

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isascii() or not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._send(413, "text/plain", b"send a Content-Length of at most 65,536 bytes\n")
            return
        body = self.rfile.read(int(length))
        service, _, rest = self.path.lstrip("/").partition("/")
        if service in SERVICES:
            self._serve(service, f"/{rest}", _read(body))
        elif not self._is_same_site():
            self._send(403, "text/plain", FROM_OTHER_SITE)
        elif self.path == "/control":
            self._control(_read(body))
        else:
            self._press(*self.path.lstrip("/").split("/"))

    # The services

    def _serve(self, service: str, path: str, body: dict[str, Any]) -> None:
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        key = self.headers.get("idempotency-key", "")
        answer = self.server.world.answer(Request(service, path, key, token, body))
        time.sleep(answer.seconds)
        if answer.status:
            self._send_json(answer.status, dict(answer.body))
        else:
            self.close_connection = True

    # The page and the drills

    def _press(self, action: str = "", service: str = "", *_: str) -> None:
        """Execute the action of a button on the page."""
        world, zones = self.server.world, self.server.zones
        actions: dict[str, Callable[[], None]] = {
            "break": lambda: world.break_(service, by="person"),
            "repair": lambda: world.repair(service),
            "zones": zones.fix,
        }
        try:
            actions[action]()
        except (KeyError, InvalidValueError):
            self._send(404, "text/plain", NOT_FOUND)
            return
        self._send(303, "text/plain", b"", {"location": "/"})

    def _control(self, command: dict[str, Any]) -> None:
        """Execute a command of a drill."""
        world = self.server.world
        try:
            if "calm" in command:
                world.calm(float(command["calm"]))
            elif command.get("state") == "up":
                world.repair(str(command.get("service")), about=str(command.get("about", "")))
            else:
                world.break_(
                    str(command.get("service")),
                    command.get("state"),
                    by="drill",
                    about=str(command.get("about", "")),
                    after=int(command.get("after", 0)),
                    seconds=float(command.get("seconds", 60.0)),
                )
        except (InvalidValueError, TypeError, ValueError) as error:
            self._send_json(422, {"error": str(error)[:200]})
            return
        self._send_json(200, self._status({}))

    def _status(self, query: dict[str, str]) -> dict[str, Any]:
        world = self.server.world
        about = {"about": world.seen(query["about"])} if "about" in query else {}
        return {"services": world.states(), "calm": world.is_calm, **about}

    def _is_same_site(self) -> bool:
        """Check the origin of a form, and the host: another name in DNS may point at this machine."""
        port = self.server.server_port
        own = {f"{name}:{port}" for name in (HOST, "localhost")}
        origin = self.headers.get("origin")
        site = self.headers.get("sec-fetch-site", "none")
        if self.headers.get("host") not in own or (self.command == "POST" and site == "cross-site"):
            return False
        return self.command != "POST" or origin is None or origin.removeprefix("http://") in own

    def _send_json(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
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
        """Log nothing: the terminal belongs to the demo's display."""


def render_page(world: World, zones: ShippingZones) -> str:
    services = [
        {
            "name": name,
            "purpose": PURPOSES[name],
            "condition": CONDITIONS[state],
            "button": BUTTONS[USUAL_FAULT[name]] if state == UP else "Repair it",
            "is_up": state == UP,
        }
        for name, state in world.states().items()
    ]
    return _page().render(services=services, zones=zones)


@cache
def _page() -> Template:
    source = (files("redrive.demo") / "world.html").read_text(encoding="utf-8")
    parser = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return parser.from_string(source)


def _read(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
