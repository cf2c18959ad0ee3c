"""Queues: how deep they are, and pausing them. All organizations share them."""

from __future__ import annotations

from starlette.responses import Response

from redrive.engine.queue_queries import QueueQueries
from redrive.policy.access import Permission
from redrive.server.answer import answer, page
from redrive.server.api.parameter import Name
from redrive.server.api.shape.base import Reasoned, reason_of
from redrive.server.api.shape.shared import QueueList, QueueShape
from redrive.server.api.view.shared import queue_view
from redrive.server.request_context import RequestContext, Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("queues", "/api/v1/queues")
READ, CONTROL = may(Permission.READ), may(Permission.CONTROL, home=True)

_QUEUE = {200: {"model": QueueShape}}


@routes.get("", READ, responses={200: {"model": QueueList}})
async def list_(visit: Visiting) -> Response:
    """What the organization has in each of them; what all have is told at home."""
    return page([queue_view(each) for each in await (await _book(visit)).list()], None)


@routes.get("/{name:path}", READ, responses=_QUEUE)
async def get(visit: Visiting, name: Name) -> Response:
    """One queue."""
    return await _shown(visit, name)


@routes.post("/{name:path}/pause", CONTROL, responses=_QUEUE)
async def pause(visit: Visiting, name: Name, body: Reasoned | None = None) -> Response:
    """Begin nothing more that lies in it; what is in flight is finished."""
    await visit.app.pause(name, by=visit.principal.name, reason=reason_of(body))
    return await _shown(visit, name)


@routes.post("/{name:path}/resume", CONTROL, responses=_QUEUE)
async def resume(visit: Visiting, name: Name) -> Response:
    """Go on with it."""
    await visit.app.resume(name, by=visit.principal.name)
    return await _shown(visit, name)


async def _shown(visit: RequestContext, name: str) -> Response:
    return answer(queue_view(await (await _book(visit)).get(name)))


async def _book(visit: RequestContext) -> QueueQueries:
    return await visit.app.queue_book(org=visit.org, by=visit.principal.name)
