"""Statistics of dead letters (M7)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.failures.statistics import statistics
from redrive.policy.access import Permission
from redrive.server.answer import answer
from redrive.server.api.shape.statistics import StatisticsShape
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

Queue = Annotated[str | None, Query(min_length=1, max_length=200, description="Of this queue alone")]

routes = Routes("statistics", "/api/v1/statistics")


@routes.get("", may(Permission.READ), responses={200: {"model": StatisticsShape}})
async def get(visit: Visiting, queue: Queue = None) -> Response:
    """The figures of the dead letters of the organization; those of a lifetime survive restarts."""
    app, settings = visit.app, visit.app.settings
    await app.open()
    figures = await statistics(
        app.store_of(visit.org),
        visit.org,
        queue,
        max_size=settings.dlq_max_size,
        interval=settings.dlq_interval_sec,
    )
    return answer(figures.as_dict())
