"""The audit: what was done, by whom, and whether the record of it is whole."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.failures.audit import LATEST, AuditEntry, AuditVerdict
from redrive.model.audit import Action, Head
from redrive.policy.access import Permission
from redrive.policy.audit_chain import ChainFault
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import Cursor, RequestBody, Size, Timestamp, at_most
from redrive.server.api.resource import Resource
from redrive.server.request_context import CallersFailures, RequestContext, Visiting
from redrive.server.route import Routes
from redrive.server.site import site_of

Word = Annotated[str | None, Query(min_length=1, max_length=200)]
Moment = Annotated[Timestamp | None, Query()]

routes = Routes("audit", "/api/v1/audit")
READ = may(Permission.READ)


class Verification(RequestBody):
    """`head` is the text of one that was taken before: the chain must still hold its entry."""

    head: Annotated[str | None, Field(min_length=1, max_length=500)] = None


def _text(head: Head) -> str:
    return str(head)


ENTRY = Resource(
    AuditEntry,
    "EntryShape",
    description="What was done, by whom, to what. `hash` ties it to the entry before it.",
)
HEAD = Resource(
    Head,
    "HeadShape",
    description="Where the chain ends. Keep `text` elsewhere, and have it verified later.",
    computed={"text": _text},
)
FAULT = Resource(ChainFault, "FaultShape")
CHAIN = Resource(
    AuditVerdict,
    "ChainShape",
    description="`found` counts all faults, `faults` lists the first of them.",
    properties=("sound",),
)


@routes.get("", READ, returns=ENTRY.page("EntryPage"))
async def list_(
    visit: Visiting,
    action: Annotated[Action | None, Query()] = None,
    actor: Word = None,
    subject: Word = None,
    since: Moment = None,
    until: Moment = None,
    size: Size = 50,
    cursor: Cursor = None,
) -> Response:
    """The newest first; a subject finds what was done to it alone.

    Without `since`, as far back as one request may look.
    """
    first, last = _span(visit, since, until)
    found = await visit.failures.audit.list(
        action=action,
        actor=actor,
        subject=subject,
        since=first,
        until=last,
        size=at_most(size, visit),
        cursor=cursor,
    )
    return page(ENTRY.views(found.entries), found.next_cursor)


@routes.get("/head", READ, returns=HEAD.model)
async def head(failures: CallersFailures) -> Response:
    """Where the chain ends, to be kept elsewhere and verified later."""
    return answer(HEAD.view(await failures.audit.head()))


@routes.post("/verify", may(Permission.READ, repeatable=False), returns=CHAIN.model)
async def verify(
    request: Request, failures: CallersFailures, visit: Visiting, body: Verification | None = None
) -> Response:
    """Is the chain whole, and does it still hold the entry of a head that was taken before?

    The whole chain is read: one at a time for each organization.
    """
    with site_of(request.scope).verifying.slot(visit.org):
        return answer(CHAIN.view(await failures.audit.verify(None if body is None else body.head)))


def _span(
    visit: RequestContext, since: datetime | None, until: datetime | None
) -> tuple[float, float | None]:
    """In seconds since 1970."""
    days = visit.parts.settings.server_span_days
    longest = timedelta(days=days).total_seconds()
    last = visit.parts.clock.now() if until is None else _seconds(until)
    first = max(0.0, last - longest) if since is None else _seconds(since)
    if last - first > longest:
        raise InvalidValueError(f"since and until are at most {days:,} days apart; ask for a shorter time")
    return first, None if until is None else last


def _seconds(moment: datetime) -> float:
    return min(max(0.0, moment.timestamp()), LATEST)
