"""The API and the pages as an ASGI application.

Every response gets a request id, security headers and a log line; exceptions become problems.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redrive.app import Redrive
from redrive.log_line import write_log_line
from redrive.parts import parts_of
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.server.admin import PAGES
from redrive.server.admin.problem_page import is_page, problem_page
from redrive.server.api import NOUNS
from redrive.server.banner import Banner
from redrive.server.limits import BodyLimits
from redrive.server.metrics import count_store_failures
from redrive.server.problem import ProblemError, problem_of, problem_response
from redrive.server.route import build_api, methods_of
from redrive.server.site import Site

LOGGER = logging.getLogger("redrive.server")
REQUEST_ID = "X-Request-Id"
MAX_STACK_LENGTH = 20_000
_ID = re.compile(r"[0-9a-f]{6,32}")
"""An id, or its first digits. Any other text in a path could be a secret."""
_IDS = {
    "runs": "run_id",
    "jobs": "run_id",
    "dead-letters": "dlq_id",
    "workflow-dlq": "dlq_id",
    "dlq": "dlq_id",
}
PROBES = ("/healthz", "/readyz")
"""Health probes, requested every few seconds."""
_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

PROTECTION = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "interest-cohort=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SECURE = {"Strict-Transport-Security": "max-age=31536000"}


def create_app(redrive: Redrive, *, banner: Banner | None = None) -> FastAPI:
    """Build the API and the admin pages as an ASGI application. `redrive.server.serve` runs it on uvicorn."""
    site = Site(redrive, banner=banner)
    extension = () if banner is None else (banner.routes,)
    api = build_api(site, (*NOUNS, *PAGES, *extension), _answer_error, lambda _: _lifespan(site))
    count_store_failures(api)
    api.add_middleware(BodyLimits, most=site.parts.settings.server_body_bytes)
    api.add_middleware(ResponseMiddleware, site=site)
    return api


@asynccontextmanager
async def _lifespan(site: Site) -> AsyncIterator[None]:
    app = site.app
    await app.open()
    await parts_of(app).enable_row_level_security()
    try:
        async with _embedded_worker(site):
            yield
    finally:
        site.closing.set()
        await app.close()


@asynccontextmanager
async def _embedded_worker(site: Site) -> AsyncIterator[None]:
    """Run a worker in the server process, if `server_worker` is set."""
    if not site.parts.settings.server_worker:
        yield
        return
    worker = site.worker = site.app.worker()
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop("server")
        with suppress(asyncio.CancelledError):
            await running


async def _answer_error(request: Request, error: Exception) -> Response:
    """Turn an exception of a route into a problem. Replaces FastAPI's error handlers."""
    problem = problem_of(error)
    if problem is None:
        raise error
    if problem.status_code == 405:  # the router only names the methods of one route
        problem.headers = {"Allow": ", ".join(methods_of(request.app.router.routes, request.scope))}
    return _problem_answer(request, problem)


def _problem_answer(request: Request, problem: ProblemError) -> Response:
    """Return a page for requests of pages, and JSON for others."""
    known = (problem, request.state.request_id, request.scope["app"].state.site.parts.redactor)
    return problem_page(request, *known) if is_page(request) else problem_response(*known)


class ResponseMiddleware:
    """Adds headers to every response and logs it."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site
        self._headers = _encoded({**PROTECTION, **(SECURE if site.authenticator.is_secure else {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = request_id
        started = self._site.parts.clock.monotonic()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._complete(message, request_id)
            await send(message)

        try:
            self._check_host(scope)
            await self._app(scope, receive, sending)
        except Exception as error:
            problem = problem_of(error) or self._internal_problem(error, request_id)
            if status:  # the response has started, and can only be cut off
                raise
            await _problem_answer(Request(scope), problem)(scope, receive, sending)
        finally:
            self._log(scope, status, self._site.parts.clock.monotonic() - started)

    def _request_id(self, headers: Headers) -> str:
        given = headers.get(REQUEST_ID, "")
        harmless = given and _SAFE_ID.fullmatch(given) and _redacted(given) == given
        return given if harmless else self._site.parts.ids.new()

    def _complete(self, message: Message, request_id: str) -> None:
        own = _encoded({REQUEST_ID: request_id})
        given = [pair for pair in message.get("headers", ()) if pair[0].lower() != own[0][0]]
        names = {name.lower() for name, _ in given}
        message["headers"] = [*given, *own, *(pair for pair in self._headers if pair[0] not in names)]

    def _check_host(self, scope: Scope) -> None:
        if scope["path"] in PROBES:  # probes may use any host name, and their response reveals nothing
            return
        hosts = Headers(scope=scope).getlist("host") or [""]
        if len(hosts) > 1 or not self._site.knows_host(hosts[0]):
            raise ProblemError(
                421,
                "unknown_host",
                "this server doesn't serve that host name",
                hint="add it to server_hosts, or set server_url",
            )

    def _internal_problem(self, error: Exception, request_id: str) -> ProblemError:
        stack = "".join(traceback.format_exception(error))[-MAX_STACK_LENGTH:]
        fields = {"event": "request_failed", "request_id": request_id, "error": type(error).__name__}
        write_log_line(LOGGER, logging.ERROR, {**fields, "stack": stack})
        return ProblemError(
            500,
            "internal",
            "an internal error occurred",
            hint="search the server log for this request_id",
        )

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        level = logging.DEBUG if scope["path"] in PROBES and status < 400 else logging.INFO
        if not LOGGER.isEnabledFor(level):
            return
        route, visit = scope.get("route"), scope["state"].get("visit")
        fields = {
            "event": "request",
            "request_id": scope["state"]["request_id"],
            "method": _redacted(scope["method"][:20]),
            "route": getattr(route, "path", None),
            "http_status": status,
            "latency_ms": round(seconds * 1000.0, 1),
        }
        if (id_name := _id_name(fields["route"])) and _ID.fullmatch(given := scope["path_params"]["id"]):
            fields[id_name] = given
        if visit is not None:
            fields |= {"org_id": _redacted(visit.org), "actor_key": _redacted(visit.principal.name)}
        write_log_line(LOGGER, level, fields, clean=True)


@lru_cache
def _id_name(route: str | None) -> str | None:
    """Return the name in logs of the id in the path of a route, if it is one of a run or of a dead letter."""
    parts = (route or "").split("/{id}")[0].split("/")
    return _IDS.get(parts[-1]) if "/{id}" in (route or "") else None


@lru_cache(maxsize=10_000)
def _redacted(text: str) -> str:
    """Redact a text. Cached: redaction is the slowest part of a log line, and the same names are frequent."""
    return DEFAULT_REDACTOR.text(text)


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
