"""Breakers: how they stand, what waits for them, and taking them by hand. All organizations share them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import Response

from redrive.engine.breakers import BreakerView, ForceView
from redrive.policy.access import Permission
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.user_text import MAX_REASON_LENGTH
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import Name, RequestBody
from redrive.server.api.resource import Resource
from redrive.server.request_context import Visiting
from redrive.server.route import Routes

routes = Routes("breakers", "/api/v1/breakers")
READ, CONTROL = may(Permission.READ), may(Permission.CONTROL, home=True)


class Forcing(RequestBody):
    """For so many seconds, or until it is released."""

    state: Literal["OPEN", "CLOSED"]
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH)]
    seconds: Annotated[float | None, Field(ge=1, le=MAX_DELAY_SECONDS, allow_inf_nan=False)] = None


FORCE = Resource(ForceView, "ForceShape")
POLICY = Resource(
    BreakerPolicy,
    "PolicyShape",
    description="When it opens, for how long, and how it closes again; times in seconds.",
)
BREAKER = Resource(
    BreakerView,
    "BreakerShape",
    description=(
        "From `open_until` on it is probed. `waiting` is how much of the organization's work it holds."
    ),
)


@routes.get("", READ, returns=BREAKER.page("BreakerList"))
async def list_(visit: Visiting) -> Response:
    """All of them, by name."""
    return page(BREAKER.views(await visit.breakers.list()), None)


@routes.get("/{name:path}", READ, returns=BREAKER.model)
async def get(visit: Visiting, name: Name) -> Response:
    """One breaker, and how much of the organization's work waits for it."""
    return answer(BREAKER.view(await visit.breakers.view(name)))


@routes.post("/{name:path}/force", CONTROL, returns=BREAKER.model)
async def force(visit: Visiting, name: Name, body: Forcing) -> Response:
    """Open or close it by hand, for so many seconds or until it is released."""
    breakers = visit.breakers
    await breakers.view(name)  # one that nobody names is not made
    await breakers.force(name, body.state, reason=body.reason, seconds=body.seconds)
    return answer(BREAKER.view(await breakers.view(name)))


@routes.post("/{name:path}/release", CONTROL, returns=BREAKER.model)
async def release(visit: Visiting, name: Name) -> Response:
    """Leave it to itself again."""
    breakers = visit.breakers
    await breakers.view(name)
    await visit.breakers.release(name)
    return answer(BREAKER.view(await breakers.view(name)))
