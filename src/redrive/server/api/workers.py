"""Workers: who works, since when, on what."""

from __future__ import annotations

from starlette.responses import Response

from redrive.policy.access import Permission
from redrive.server.answer import page
from redrive.server.api.shape.shared import WorkerList
from redrive.server.api.view.shared import worker_view
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("workers", "/api/v1/workers")


@routes.get("", may(Permission.READ), responses={200: {"model": WorkerList}})
async def list_(visit: Visiting) -> Response:
    """All of them; where they run is told at home."""
    book = await visit.app.queue_book(org=visit.org, by=visit.principal.name)
    return page([worker_view(each) for each in await book.workers()], None)
