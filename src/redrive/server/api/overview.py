"""The overview of an organization, and the statistics of its dead letters."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import Query
from starlette.responses import Response

from redrive.failures.overview import (
    HealsItself,
    NeedsYou,
    OldestLetter,
    Overview,
    OverviewTotals,
    ReplayTotals,
)
from redrive.failures.statistics import statistics
from redrive.model.statistics import LifetimeStats, Span, Statistics
from redrive.parts import parts_of
from redrive.policy.access import Permission
from redrive.server.access_control import may
from redrive.server.answer import answer
from redrive.server.api.resource import Resource
from redrive.server.request_context import RequestContext, Visiting
from redrive.server.route import Routes

Back = Annotated[Span, Query(description="How far it looks back")]
QueueName = Annotated[str | None, Query(min_length=1, max_length=200, description="Of this queue alone")]

routes = Routes("overview", "/api/v1/overview")
statistics_routes = Routes("statistics", "/api/v1/statistics")


class Flow(NamedTuple):
    """Dead letters that were written or reopened, and those that were closed or removed."""

    came: tuple[int, ...]
    left: tuple[int, ...]


def _flow(overview: Overview) -> Flow:
    return Flow(overview.came, overview.left)


FLOW = Resource(Flow, "FlowShape")
NEEDS_YOU = Resource(NeedsYou, "NeedsYouShape", properties=("total",))
HEALS_ITSELF = Resource(
    HealsItself,
    "HealsItselfShape",
    description=(
        "What goes on without anybody: runs that breakers hold, runs between two attempts, dead letters that "
        "are replayed, and open ones that will be redriven."
    ),
    properties=("total",),
)
OLDEST = Resource(OldestLetter, "OldestShape")
REPLAYS = Resource(
    ReplayTotals,
    "ReplayRecordShape",
    description="`rate` is the part that has succeeded.",
    properties=("rate",),
)
TOTALS = Resource(OverviewTotals, "OverviewTotalsShape")
OVERVIEW = Resource(
    Overview,
    "OverviewShape",
    description="Lists have one number for each part, of `seconds` from `start` on; the last is under way.",
    hidden=("came", "left"),
    renamed={"width": "seconds"},
    flattened=("totals",),
    computed={"dead_letters": _flow},
)
LIFETIME = Resource(LifetimeStats, "LifetimeShape")
STATISTICS = Resource(
    Statistics,
    "StatisticsShape",
    description="`queue_size` counts live dead letters; `max_size` is null where there is no limit.",
)


@routes.get("", may(Permission.READ), returns=OVERVIEW.model)
async def get(visit: Visiting, span: Back = Span.DAY) -> Response:
    """How the organization's work stands, and what has happened to it lately."""
    return answer(OVERVIEW.view(await visit.failures.overview(span)))


@statistics_routes.get("", may(Permission.READ), returns=STATISTICS.model)
async def _get(visit: Visiting, queue: QueueName = None) -> Response:
    """The figures of the dead letters of the organization; those of a lifetime survive restarts."""
    return answer(STATISTICS.view(await statistics_of(visit, queue)))


async def statistics_of(visit: RequestContext, queue: str | None) -> Statistics:
    app, settings = visit.app, visit.parts.settings
    await app.open()
    return await statistics(
        parts_of(app).store_of(visit.org),
        visit.org,
        queue,
        max_size=settings.dlq_max_size,
        interval=settings.dlq_interval_sec,
    )
