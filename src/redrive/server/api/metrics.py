"""Metrics for Prometheus, of this process and of the tables (W15, P9)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from redrive.policy.access import Permission
from redrive.server.problem import ProblemError
from redrive.server.route import Routes
from redrive.server.rule import may
from redrive.server.scrape import scraped
from redrive.server.site import site_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

routes = Routes("metrics", "/metrics")


@routes.get("", may(Permission.READ, home=True), response_class=PlainTextResponse)
async def get(request: Request) -> Response:
    """Counters of this process; queues, breakers, workers and dead letters of all organizations."""
    site = site_of(request.scope)
    if site.metrics is None:
        raise ProblemError(
            501,
            "no_metrics",
            "this server has no metrics: prometheus-client is not installed",
            hint="pip install 'redrive[metrics]'",
        )
    return Response(await scraped(site.app, site.metrics), 200, {}, CONTENT_TYPE)
