"""Breakers: how they stand, what waits for them, and taking them by hand. All organizations share them."""

from __future__ import annotations

from starlette.responses import Response

from redrive.engine.breaker_queries import BreakerQueries
from redrive.policy.access import Permission
from redrive.server.answer import answer, page
from redrive.server.api.parameter import Name
from redrive.server.api.shape.shared import BreakerList, BreakerShape, Forcing
from redrive.server.api.view.shared import breaker_view
from redrive.server.request_context import RequestContext, Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("breakers", "/api/v1/breakers")
READ, CONTROL = may(Permission.READ), may(Permission.CONTROL, home=True)

_BREAKER = {200: {"model": BreakerShape}}


@routes.get("", READ, responses={200: {"model": BreakerList}})
async def list_(visit: Visiting) -> Response:
    """All of them, by name."""
    return page([breaker_view(each) for each in await (await _book(visit)).list()], None)


@routes.get("/{name:path}", READ, responses=_BREAKER)
async def get(visit: Visiting, name: Name) -> Response:
    """One breaker, and how much of the organization's work waits for it."""
    return answer(breaker_view(await (await _book(visit)).get(name)))


@routes.post("/{name:path}/force", CONTROL, responses=_BREAKER)
async def force(visit: Visiting, name: Name, body: Forcing) -> Response:
    """Open or close it by hand, for so many seconds or until it is released."""
    book = await _book(visit)
    await book.get(name)  # one that nobody names is not made
    by, reason, seconds = visit.principal.name, body.reason, body.seconds
    await visit.app.force_breaker(name, body.state, reason=reason, by=by, seconds=seconds)
    return answer(breaker_view(await book.get(name)))


@routes.post("/{name:path}/release", CONTROL, responses=_BREAKER)
async def release(visit: Visiting, name: Name) -> Response:
    """Leave it to itself again."""
    book = await _book(visit)
    await book.get(name)
    await visit.app.release_breaker(name, by=visit.principal.name)
    return answer(breaker_view(await book.get(name)))


async def _book(visit: RequestContext) -> BreakerQueries:
    return await visit.app.breaker_book(org=visit.org, by=visit.principal.name)
