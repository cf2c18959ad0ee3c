"""Is the server there, and can it do its work?"""

from __future__ import annotations

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from redrive.server.answer import answer
from redrive.server.problem import ProblemError
from redrive.server.route import Routes
from redrive.server.rule import UNCOUNTED
from redrive.server.site import site_of

routes = Routes("health", "")


class Health(BaseModel):
    status: str


@routes.head("/healthz", UNCOUNTED)
@routes.get("/healthz", UNCOUNTED, responses={200: {"model": Health}})
async def alive() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@routes.head("/readyz", UNCOUNTED)
@routes.get("/readyz", UNCOUNTED, responses={200: {"model": Health}})
async def ready(request: Request) -> Response:
    """The database can be written, and the server is not about to stop."""
    site = site_of(request.scope)
    if site.closing.is_set():
        raise ProblemError(503, "stopping", "the server is about to stop", hint="ask another one")
    await site.readiness.check()
    return answer({"status": "ready"})
