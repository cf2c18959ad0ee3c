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
    UnknownWork,
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

Back = Annotated[Span, Query(description="The time range, up to now")]
QueueName = Annotated[str | None, Query(min_length=1, max_length=200, description="Only this queue")]

routes = Routes("overview", "/api/v1/overview")
statistics_routes = Routes("statistics", "/api/v1/statistics")


class Flow(NamedTuple):
    """`new` counts created and reopened dead letters, `closed` also removed ones."""

    new: tuple[int, ...]
    closed: tuple[int, ...]


def _flow(overview: Overview) -> Flow:
    return Flow(overview.new, overview.closed)


FLOW = Resource(Flow, "FlowShape")
NEEDS_YOU = Resource(NeedsYou, "NeedsYouShape", properties=("total",))
HEALS_ITSELF = Resource(
    HealsItself,
    "HealsItselfShape",
    description=(
        "Work that continues automatically: runs that breakers hold, runs that wait for a retry, dead "
        "letters that are being replayed, and open ones that will be redriven."
    ),
    properties=("total",),
)
OLDEST = Resource(OldestLetter, "OldestShape")
REPLAYS = Resource(
    ReplayTotals,
    "ReplayRecordShape",
    description="`rate` is the share of replays that succeeded.",
    properties=("rate",),
)
UNKNOWN_WORK = Resource(
    UnknownWork,
    "UnknownWorkShape",
    description="Runs that no running worker knows. `held_by` names the task or the workflow: `task:ship`.",
)
TOTALS = Resource(OverviewTotals, "OverviewTotalsShape")
OVERVIEW = Resource(
    Overview,
    "OverviewShape",
    description="Lists have one number per interval of `seconds`, from `start` on. The last is incomplete.",
    hidden=("new", "closed"),
    renamed={"width": "seconds"},
    flattened=("totals",),
    computed={"dead_letters": _flow},
)
LIFETIME = Resource(LifetimeStats, "LifetimeShape")
STATISTICS = Resource(
    Statistics,
    "StatisticsShape",
    description="`queue_size` counts live dead letters; `max_size` is null without a limit.",
)


@routes.get("", may(Permission.READ), returns=OVERVIEW.model)
async def get(visit: Visiting, span: Back = Span.DAY) -> Response:
    """Get the overview of the organization: what needs attention, and what happened lately."""
    return answer(OVERVIEW.view(await visit.failures.overview(span)))


@statistics_routes.get("", may(Permission.READ), returns=STATISTICS.model)
async def _get(visit: Visiting, queue: QueueName = None) -> Response:
    """Get the dead-letter statistics of the organization. Lifetime totals survive restarts."""
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
