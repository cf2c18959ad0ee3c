"""Streams: list them with their lag, pause and resume them."""

from __future__ import annotations

from starlette.responses import Response

from redrive.events.streams import ProjectorView, StreamView
from redrive.model.stream import Gap
from redrive.policy.access import Permission
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import Name, Reasoned, reason_of
from redrive.server.api.resource import Resource
from redrive.server.request_context import RequestContext, Visiting
from redrive.server.route import Routes

routes = Routes("streams", "/api/v1/streams")
READ, CONTROL = may(Permission.READ), may(Permission.CONTROL)

GAP = Resource(
    Gap,
    "GapShape",
    description="Entries that Redis removed before they were read: those after one id and before another.",
)
PROJECTOR = Resource(ProjectorView, "ProjectorShape")
STREAM = Resource(StreamView, "StreamShape", properties=("state",))


@routes.get("", READ, returns=STREAM.page("StreamList"))
async def list_(visit: Visiting) -> Response:
    """List the streams of the organization, as their consumers last reported them."""
    return page(STREAM.views(await visit.streams.list()), None)


@routes.get("/{name}", READ, returns=STREAM.model)
async def get(visit: Visiting, name: Name) -> Response:
    """Get a stream with its projectors and gaps."""
    return await _answer(visit, name)


@routes.post("/{name}/pause", CONTROL, returns=STREAM.model)
async def pause(visit: Visiting, name: Name, body: Reasoned | None = None) -> Response:
    """Pause a stream: consumers read nothing more. Runs of its projectors continue."""
    await visit.streams.pause(name, reason=reason_of(body))
    return await _answer(visit, name)


@routes.post("/{name}/resume", CONTROL, returns=STREAM.model)
async def resume(visit: Visiting, name: Name, body: Reasoned | None = None) -> Response:
    """Resume a paused stream."""
    await visit.streams.resume(name, reason=reason_of(body))
    return await _answer(visit, name)


async def _answer(visit: RequestContext, name: str) -> Response:
    return answer(STREAM.view(await visit.streams.view(name)))
