"""The event stream of an organization, as server-sent events (text/event-stream)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from redrive.errors import StoreError
from redrive.model.audit import Change, ChangeKind
from redrive.policy.access import Permission, Principal
from redrive.server.access_control import may, other_organization
from redrive.server.answer import encoded, when
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.site import Site, site_of

MAX_SEQUENCE = 2**62
END_SECONDS = 1.0
"""How long a client may take to read the end of the stream."""
BEAT = b": beat\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_RETRY = b"retry: 3000\n"

After = Annotated[
    int | None,
    Query(
        ge=0,
        le=MAX_SEQUENCE,
        description="Start after the event with this id; by default, with the next event",
    ),
]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=r"^[0-9]{0,18}$",
        description="Sent by browsers when they reconnect; takes precedence over `after`",
    ),
]

Meant = Annotated[
    str | None,
    Query(
        max_length=200,
        description="The expected organization; the request fails if the caller is in another one",
    ),
]

routes = Routes("events", "/api/v1/events")

_EXAMPLE = (
    'id: 17\nevent: entry\ndata: {"sequence": 17, "at": "2030-01-31T12:00:00.000Z", '
    '"action": "dead_letter.resolved", "subjects": ["01…"], "number": 1}\n\n'
)
_STREAM = {
    "description": (
        "`entry`: an action and its subjects. `counters`: dead letters by state, and the states of breakers. "
        "`reset`: the client missed too many events and has to reload. A comment every 15 s keeps the "
        "connection alive. `id` is the sequence number of the audit log."
    ),
    "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
}


class EventStream(Response):
    """An event stream that ends when the server stops, when the caller loses access or switches to another
    organization, and when the client disconnects or stops reading."""

    media_type = "text/event-stream"

    def __init__(self, site: Site, request: Request, principal: Principal, after: int | None) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)
        self._site = site
        self._request = request
        self._principal = principal
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._site.streams.slot(self._principal):
            following = self._site.parts.changes.follow(self._principal.org, self._after)
            async with aclosing(following) as changes:
                first = await anext(changes)  # raises before the response starts
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await self._live(receive, asyncio.create_task(self._tell(first, changes, send)))
            await _send_in_time({"type": "http.response.body", "body": b""}, send, END_SECONDS)

    async def _live(self, receive: Receive, telling: asyncio.Task[None]) -> None:
        """Wait until the stream, the server or the client ends."""
        others = [
            asyncio.create_task(self._site.closing.wait()),
            asyncio.create_task(_disconnection(receive)),
        ]
        tasks = [telling, *others]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not telling.cancelled():
            telling.result()

    async def _tell(self, first: Change, changes: AsyncGenerator[Change, None], send: Send) -> None:
        if await self._write(_RETRY + event_text(first), send):
            async for change in changes:
                if not await self._may_read(change) or not await self._write(event_text(change), send):
                    return

    async def _may_read(self, change: Change) -> bool:
        """Authenticate again for each change: the authenticator remembers a credential for two seconds."""
        try:
            visitor = await self._site.authenticator.authenticate(self._request)
        except StoreError:  # unknown; a heartbeat reveals nothing
            return change.kind is ChangeKind.BEAT
        if visitor is None or visitor.principal.org != self._principal.org:
            return False
        return Permission.READ in visitor.principal.permissions

    async def _write(self, text: bytes, send: Send) -> bool:
        message = {"type": "http.response.body", "body": text, "more_body": True}
        return await _send_in_time(message, send, self._site.streams.write_timeout)


def event_text(change: Change) -> bytes:
    if change.kind is ChangeKind.BEAT:
        return BEAT
    head = f"id: {change.sequence}\nevent: {change.kind}\ndata: ".encode()
    return head + encoded(_data(change)) + b"\n\n"


def _data(change: Change) -> dict[str, Any]:
    """Return ids, actions and numbers; never payloads or reasons."""
    if change.kind is ChangeKind.ENTRY:
        return {
            "sequence": change.sequence,
            "at": when(change.at),
            "action": change.action,
            "subjects": change.subjects,
            "number": change.number,
        }
    counters = {} if change.counters is None else change.counters._asdict()
    return {"at": when(change.at), **counters}


async def _send_in_time(message: Message, send: Send, write_timeout: float) -> bool:
    """Return False if the client doesn't read in time."""
    try:
        async with asyncio.timeout(write_timeout):
            await send(message)
    except TimeoutError:
        return False
    return True


async def _disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@routes.get("", may(Permission.READ), status_code=200, response_class=EventStream, responses={200: _STREAM})
async def follow(
    request: Request,
    visit: Visiting,
    after: After = None,
    last_event_id: LastEventId = None,
    org: Meant = None,
) -> Response:
    """Stream the events of the organization as server-sent events: ids, actions and counts."""
    if org is not None and org != visit.org:
        raise other_organization(visit.org)
    place = int(last_event_id) if last_event_id else after
    return EventStream(site_of(request.scope), request, visit.principal, place)
