"""The installation: probes, metrics for Prometheus, settings."""

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
    """`origin` is where its value comes from. Secrets are masked."""

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
    """The process answers."""
    return answer({"status": "ok"})


@probes.head("/readyz", UNCOUNTED)
@probes.get("/readyz", UNCOUNTED, returns=Health)
async def ready(request: Request) -> Response:
    """The database can be written, and the server is not about to stop."""
    site = site_of(request.scope)
    if site.closing.is_set():
        raise ProblemError(503, "stopping", "the server is about to stop", hint="ask another one")
    await site.readiness.check()
    return answer({"status": "ready"})


@metrics_routes.get("", may(Permission.READ, home=True), response_class=PlainTextResponse)
async def _get(request: Request) -> Response:
    """Counters of this process; queues, breakers, workers and dead letters of all organizations."""
    site = site_of(request.scope)
    if site.metrics is None:
        raise ProblemError(
            501,
            "no_metrics",
            "this server has no metrics: prometheus-client is not installed",
            hint="pip install 'redrive[metrics]'",
        )
    return Response(await scrape(site.app, site.metrics), 200, {}, CONTENT_TYPE)


@setting_routes.get("", may(Permission.MANAGE, home=True), returns=SettingList)
async def _list(visit: Visiting) -> Response:
    """All of them, secrets masked."""
    settings = visit.parts.settings
    origins = settings.origins()
    values = [each.as_json(getattr(settings, each.name), origins[each.name]) for each in SETTINGS]
    return page(values, None)
