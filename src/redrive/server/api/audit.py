"""The audit log: list its entries and verify its hash chain."""

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
    """`head` is the text of an earlier head. The chain must still contain its entry."""

    head: Annotated[str | None, Field(min_length=1, max_length=500)] = None


def _text(head: Head) -> str:
    return str(head)


ENTRY = Resource(
    AuditEntry,
    "EntryShape",
    description="An action: who did what to which subjects. `hash` links the entry to the previous one.",
)
HEAD = Resource(
    Head,
    "HeadShape",
    description="The end of the chain. Store `text` elsewhere to verify it later.",
    computed={"text": _text},
)
FAULT = Resource(ChainFault, "FaultShape", hidden=("fact",), properties=("text",))
CHAIN = Resource(
    AuditVerdict,
    "ChainShape",
    description="`found` is the number of faults, `faults` lists the first of them.",
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
    """List audit entries, newest first.

    With `subject`, list only the actions on that subject. Without `since`, the list covers the longest time
    span that one request may read.
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
    """Get the head of the audit chain, to store elsewhere and verify later."""
    return answer(HEAD.view(await failures.audit.head()))


@routes.post("/verify", may(Permission.READ, repeatable=False), returns=CHAIN.model)
async def verify(
    request: Request, failures: CallersFailures, visit: Visiting, body: Verification | None = None
) -> Response:
    """Verify the audit chain, and that it still contains the entry of an earlier head.

    Reads the whole chain, so only one verification per organization runs at a time.
    """
    with site_of(request.scope).verifying.slot(visit.org):
        return answer(CHAIN.view(await failures.audit.verify(None if body is None else body.head)))


def _span(
    visit: RequestContext, since: datetime | None, until: datetime | None
) -> tuple[float, float | None]:
    """Return the first and the last moment in seconds since 1970."""
    days = visit.parts.settings.server_span_days
    longest = timedelta(days=days).total_seconds()
    last = visit.parts.clock.now() if until is None else _seconds(until)
    first = max(0.0, last - longest) if since is None else _seconds(since)
    if last - first > longest:
        raise InvalidValueError(
            f"since and until can be at most {days:,} days apart; request a shorter range"
        )
    return first, None if until is None else last


def _seconds(moment: datetime) -> float:
    return min(max(0.0, moment.timestamp()), LATEST)
