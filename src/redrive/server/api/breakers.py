"""Circuit breakers: list them, and open or close them manually. All organizations share them."""

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
from redrive.words.state import status

routes = Routes("breakers", "/api/v1/breakers")
READ, CONTROL = may(Permission.READ), may(Permission.CONTROL, home=True)


class Forcing(RequestBody):
    """`seconds` is how long the manual state lasts. Without it, the state lasts until it is released."""

    state: Literal["OPEN", "CLOSED"]
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH)]
    seconds: Annotated[float | None, Field(ge=1, le=MAX_DELAY_SECONDS, allow_inf_nan=False)] = None


def _status(breaker: ForceView | BreakerView) -> str:
    is_idle = isinstance(breaker, BreakerView) and breaker.idle
    return status("idle" if is_idle else breaker.state, "breaker")


FORCE = Resource(ForceView, "ForceShape", status=_status)
POLICY = Resource(
    BreakerPolicy,
    "PolicyShape",
    description="When a breaker opens, for how long, and how it closes. Times are in seconds.",
)
BREAKER = Resource(
    BreakerView,
    "BreakerShape",
    description=(
        "A breaker and its current state. Probes start at `open_until`. `waiting` counts the runs of your "
        "organization that it holds. `idle`: half-open, but nothing waits; the next run tries the dependency."
    ),
    properties=("idle",),
    status=_status,
)


@routes.get("", READ, returns=BREAKER.page("BreakerList"))
async def list_(visit: Visiting) -> Response:
    """List all breakers by name."""
    return page(BREAKER.views(await visit.breakers.list()), None)


@routes.get("/{name:path}", READ, returns=BREAKER.model)
async def get(visit: Visiting, name: Name) -> Response:
    """Get a breaker and the number of runs that it holds."""
    return answer(BREAKER.view(await visit.breakers.view(name)))


@routes.post("/{name:path}/force", CONTROL, returns=BREAKER.model)
async def force(visit: Visiting, name: Name, body: Forcing) -> Response:
    """Open or close a breaker manually, for a number of seconds or until it is released."""
    breakers = visit.breakers
    await breakers.view(name)  # an unknown name is an error, not a new breaker
    await breakers.force(name, body.state, reason=body.reason, seconds=body.seconds)
    return answer(BREAKER.view(await breakers.view(name)))


@routes.post("/{name:path}/release", CONTROL, returns=BREAKER.model)
async def release(visit: Visiting, name: Name) -> Response:
    """Release a breaker that was opened or closed manually."""
    breakers = visit.breakers
    await breakers.view(name)
    await visit.breakers.release(name)
    return answer(BREAKER.view(await breakers.view(name)))
