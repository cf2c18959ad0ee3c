"""Rebuilds: the stored events of a stream through one projector again. Workers execute them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response

from redrive.events.projector import MAX_VERSION
from redrive.events.rebuilds import DEFAULT_MAX_FAILURES, MAX_TYPES, RebuildPreview
from redrive.model.rebuild import Rebuild
from redrive.policy.access import Permission
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import (
    Cursor,
    Reason,
    Reasoned,
    RebuildId,
    RequestBody,
    Size,
    Timestamp,
    at_most,
    reason_of,
)
from redrive.server.api.resource import Resource
from redrive.server.request_context import Visiting
from redrive.server.route import Routes

routes = Routes("rebuilds", "/api/v1/rebuilds")
READ, RETRY = may(Permission.READ), may(Permission.RETRY)

NameText = Annotated[str, Field(min_length=1, max_length=200)]

REBUILD = Resource(
    Rebuild,
    "RebuildShape",
    hidden=(
        *("org", "released_at", "generation", "position", "event_id"),
        *("end_generation", "end_position", "end_event_id"),
    ),
)
PREVIEW = Resource(RebuildPreview, "RebuildPreviewShape")


class RebuildRequest(RequestBody):
    """Name the projector, and its stream if several streams have one of this name.

    By default, the newest version processes all stored events that it wants, as fast as workers execute them.
    `only_missing` leaves out events that this version has processed. The rebuild stops when the projector
    has `max_failures` new dead letters.
    """

    projector: NameText
    stream: NameText | None = None
    version: Annotated[int | None, Field(ge=1, le=MAX_VERSION)] = None
    types: Annotated[list[NameText], Field(max_length=MAX_TYPES)] = Field(default_factory=list)
    since: Timestamp | None = None
    until: Timestamp | None = None
    only_missing: bool = False
    rate: Annotated[float | None, Field(ge=0.001, le=100_000, allow_inf_nan=False)] = None
    max_failures: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_MAX_FAILURES
    reason: Reason = ""

    @property
    def options(self) -> dict[str, Any]:
        """All fields but the projector, as `rebuilds.start` takes them."""
        given = self.model_dump(exclude={"projector"})
        for name in ("since", "until"):
            if given[name] is not None:
                given[name] = given[name].timestamp()
        return given


@routes.get("", READ, returns=REBUILD.page("RebuildPage"))
async def list_(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """List rebuilds, newest first."""
    found = await visit.events.rebuilds.list(size=at_most(size, visit), cursor=cursor)
    return page(REBUILD.views(found.rebuilds), found.next_cursor)


@routes.post("", RETRY, status_code=202, returns=REBUILD.model)
async def start(visit: Visiting, body: RebuildRequest) -> Response:
    """Start a rebuild: the stored events of a stream through one projector again, in order."""
    started = await visit.events.rebuilds.start(body.projector, **body.options)
    return answer(REBUILD.view(started), 202, {"Location": f"/api/v1/rebuilds/{started.id}"})


@routes.post("/preview", RETRY, returns=PREVIEW.model)
async def preview(visit: Visiting, body: RebuildRequest) -> Response:
    """Check a rebuild, and count the events that it would read. Nothing is started."""
    return answer(PREVIEW.view(await visit.events.rebuilds.preview(body.projector, **body.options)))


@routes.get("/{id}", READ, returns=REBUILD.model)
async def get(visit: Visiting, rebuild_id: RebuildId) -> Response:
    """Get a rebuild and its progress."""
    return answer(REBUILD.view(await visit.events.rebuilds.view(rebuild_id)))


@routes.post("/{id}/pause", RETRY, returns=REBUILD.model)
async def pause(visit: Visiting, rebuild_id: RebuildId, body: Reasoned | None = None) -> Response:
    """Pause a rebuild: it starts no more executions until it is resumed."""
    return answer(REBUILD.view(await visit.events.rebuilds.pause(rebuild_id, reason_of(body))))


@routes.post("/{id}/resume", RETRY, returns=REBUILD.model)
async def resume(visit: Visiting, rebuild_id: RebuildId, body: Reasoned | None = None) -> Response:
    """Resume a paused or stopped rebuild where it stopped."""
    return answer(REBUILD.view(await visit.events.rebuilds.resume(rebuild_id, reason_of(body))))


@routes.post("/{id}/cancel", RETRY, returns=REBUILD.model)
async def cancel(visit: Visiting, rebuild_id: RebuildId, body: Reasoned | None = None) -> Response:
    """Cancel a rebuild. Executions that it has started finish."""
    return answer(REBUILD.view(await visit.events.rebuilds.cancel(rebuild_id, reason_of(body))))
