"""Stored events: find them, view one with its projections, replay one or many.

`/api/v1/events` is the stream of changes, which existed before.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from redrive.events.queries import EventSummary
from redrive.events.replays import ProjectionReplay
from redrive.events.service import EventView
from redrive.model.field import Instant
from redrive.model.stream import Event, ProjectionRecord
from redrive.policy.access import Permission
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.replays import OPERATION, ItemNumber, RolloutRequest
from redrive.server.api.request import (
    Cursor,
    EventId,
    QueryText,
    Reason,
    RequestBody,
    Size,
    at_most,
)
from redrive.server.api.resource import COUNT, Resource, ResponseBody
from redrive.server.request_context import Visiting
from redrive.server.route import Routes

routes = Routes("stored_events", "/api/v1/stored-events")
READ, RETRY = may(Permission.READ), may(Permission.RETRY)

PROJECTION = Resource(ProjectionRecord, "ProjectionShape", hidden=("event_id",))
SUMMARY = Resource(EventSummary, "EventSummaryShape")
EVENT = Resource(
    Event,
    "EventShape",
    hidden=("org",),
    types={"occurred_at": Instant | None, "stored_at": Instant},
)
VIEW = Resource(
    EventView,
    "StoredEventShape",
    description="A stored event, redacted, and the state of each of its projections.",
    flattened=("event",),
)
REPLAY = Resource(ProjectionReplay, "ProjectionReplayShape")


class ReplayEventRequest(RequestBody):
    """`projectors` are the names of projectors; by default, all that process the event."""

    projectors: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]] | None,
        Field(min_length=1, max_length=100, examples=[["qscore", "service-session"]]),
    ] = None
    reason: Reason = ""


class ReplayEventsRequest(RolloutRequest):
    """Select failed projections by a query such as "is:failed projector:qscore", and set the rollout.

    `limit` selects the dead letters of the oldest events.
    """

    query: Annotated[str, Field(max_length=2000)]
    limit: ItemNumber | None = None


class EventReplay(ResponseBody):
    """What the replay of an event does, or has done, with its projections."""

    event_id: str
    projections: list[REPLAY.model]  # type: ignore[name-defined]


@routes.get("", READ, returns=SUMMARY.page("StoredEventPage"))
async def list_(visit: Visiting, q: QueryText = "", size: Size = 50, cursor: Cursor = None) -> Response:
    """List stored events that match a query, newest first, without payloads."""
    found = await visit.events.find(q, size=at_most(size, visit), cursor=cursor)
    return page(SUMMARY.views(found.events), found.next_cursor)


@routes.get("/count", READ, returns=COUNT.model)
async def count(visit: Visiting, q: QueryText = "") -> Response:
    """Count stored events that match a query, up to 10,000."""
    return answer(COUNT.view(await visit.events.count(q)))


@routes.post("/replay", may(Permission.PLAN), status_code=201, returns=OPERATION.model)
async def plan(visit: Visiting, body: ReplayEventsRequest) -> Response:
    """Plan a bulk replay of failed projections. Start it like any bulk replay."""
    options = body.options
    query = options.pop("query")
    made = (await visit.events.replays.plan(query, **options)).operation_id
    view = OPERATION.view(await visit.failures.plans.view(made))
    return answer(view, 201, {"Location": f"/api/v1/operations/{made}"})


@routes.get("/{id}", READ, returns=VIEW.model)
async def get(visit: Visiting, event_id: EventId) -> Response:
    """Get a stored event, redacted, with the state of each projection."""
    return answer(VIEW.view(await visit.events.get(event_id)))


@routes.post("/{id}/replay", RETRY, status_code=202, returns=EventReplay)
async def replay(visit: Visiting, event_id: EventId, body: ReplayEventRequest | None = None) -> Response:
    """Execute projectors for a stored event again, with the same payload and idempotency keys."""
    asked = body or ReplayEventRequest()
    done = await visit.events.replays.start(event_id, asked.projectors, reason=asked.reason)
    return answer({"event_id": event_id, "projections": REPLAY.views(done)}, 202)


@routes.post("/{id}/replay/preview", RETRY, returns=EventReplay)
async def preview(visit: Visiting, event_id: EventId, body: ReplayEventRequest | None = None) -> Response:
    """Describe what a replay of the event would do with each projection. Nothing is started."""
    asked = body or ReplayEventRequest()
    found = await visit.events.replays.preview(event_id, asked.projectors)
    return answer({"event_id": event_id, "projections": REPLAY.views(found)})
