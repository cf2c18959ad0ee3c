"""The installation: health probes, Prometheus metrics, and settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from redrive.policy.access import Permission
from redrive.server.access_control import UNCOUNTED, may
from redrive.server.answer import answer, page
from redrive.server.api.resource import ResponseBody
from redrive.server.metrics import scrape
from redrive.server.problem import ProblemError
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.site import site_of
from redrive.settings import SETTINGS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

probes = Routes("health", "")
metrics_routes = Routes("metrics", "/metrics")
setting_routes = Routes("settings", "/api/v1/settings")


class Health(BaseModel):
    status: str


class SettingShape(ResponseBody):
    """A setting. `origin` is the source of its value. Secrets are masked."""

    name: str
    value: Any
    origin: str
    default: Any
    allowed: str
    meaning: str
    variable: str
    alias: str | None
    secret: bool


class SettingList(ResponseBody):
    items: list[SettingShape]
    next_cursor: str | None


@probes.head("/healthz", UNCOUNTED)
@probes.get("/healthz", UNCOUNTED, returns=Health)
async def alive() -> Response:
    """Check that the process responds."""
    return answer({"status": "ok"})


@probes.head("/readyz", UNCOUNTED)
@probes.get("/readyz", UNCOUNTED, returns=Health)
async def ready(request: Request) -> Response:
    """Check that the database is writable and the server is not shutting down."""
    site = site_of(request.scope)
    if site.closing.is_set():
        raise ProblemError(503, "stopping", "the server is shutting down", hint="use another server")
    await site.readiness.check()
    return answer({"status": "ready"})


@metrics_routes.get("", may(Permission.READ, home=True), response_class=PlainTextResponse)
async def _get(request: Request) -> Response:
    """Get Prometheus metrics: counters of this process, and gauges for all organizations."""
    site = site_of(request.scope)
    if site.metrics is None:
        raise ProblemError(
            501,
            "no_metrics",
            "metrics need prometheus-client, which is not installed",
            hint="run: pip install 'redrive[metrics]'",
        )
    return Response(await scrape(site.app, site.metrics), 200, {}, CONTENT_TYPE)


@setting_routes.get("", may(Permission.MANAGE, home=True), returns=SettingList)
async def _list(visit: Visiting) -> Response:
    """List all settings, with secrets masked."""
    settings = visit.parts.settings
    origins = settings.origins()
    values = [setting.as_json(getattr(settings, setting.name), origins[setting.name]) for setting in SETTINGS]
    return page(values, None)
