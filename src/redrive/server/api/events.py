"""The stream of events: what happens in the organization, while it happens."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from redrive.policy.access import Permission
from redrive.server.access_control import other_organization
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.rule import may
from redrive.server.site import site_of
from redrive.server.stream import EventStream

MAX_SEQUENCE = 2**62

After = Annotated[
    int | None,
    Query(ge=0, le=MAX_SEQUENCE, description="Go on after this id; without, what comes from now on"),
]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=r"^[0-9]{0,18}$",
        description="What browsers send when they come back; it wins over `after`",
    ),
]

Meant = Annotated[
    str | None, Query(max_length=200, description="The organization that is meant; refused in another one")
]

routes = Routes("events", "/api/v1/events")

_EXAMPLE = (
    'id: 17\nevent: entry\ndata: {"sequence": 17, "at": "2030-01-31T12:00:00.000Z", '
    '"action": "dead_letter.resolved", "subjects": ["01…"], "number": 1}\n\n'
)
_STREAM = {
    "description": (
        "`entry`: something was done, to these subjects. `counters`: dead letters by state, and the states "
        "of breakers. `reset`: too much was missed, read everything again. A comment every 15 s is a sign "
        "of life. `id` is the sequence of the audit."
    ),
    "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
}


@routes.get("", may(Permission.READ), status_code=200, response_class=EventStream, responses={200: _STREAM})
async def follow(
    request: Request,
    visit: Visiting,
    after: After = None,
    last_event_id: LastEventId = None,
    org: Meant = None,
) -> Response:
    """What happens in the organization, as server-sent events: ids, actions and counts."""
    if org is not None and org != visit.org:
        raise other_organization(visit.org)
    place = int(last_event_id) if last_event_id else after
    return EventStream(site_of(request.scope), request, visit.principal, place)
