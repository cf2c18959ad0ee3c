"""Streams of events: what happens in an organization, for as long as the client may read it and does.

The protocol is that of browsers' EventSource (text/event-stream).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from redrive.errors import StoreError
from redrive.model.audit import Change, ChangeKind
from redrive.policy.access import Permission, Principal
from redrive.server.answer import encoded, when
from redrive.server.problem import ProblemError

if TYPE_CHECKING:
    from redrive.server.site import Site

MAX_PER_CALLER = 10
WRITE_TIMEOUT_SECONDS = 30.0
"""Seconds that a client may take to read what it was sent."""

ENDING = 1.0
"""Seconds that it may take to tell a client that this was all."""

BEAT = b": beat\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_RETRY = b"retry: 3000\n"


class Streams:
    """How many are open: in all, of each principal, of each organization."""

    def __init__(
        self, most: int, most_of_one: int = MAX_PER_CALLER, write_timeout: float = WRITE_TIMEOUT_SECONDS
    ) -> None:
        self.write_timeout = write_timeout
        self._most = most
        self._most_of_one = most_of_one
        self._open: Counter[str] = Counter()

    @property
    def number(self) -> int:
        return self._open["all"]

    @contextmanager
    def place_for(self, principal: Principal) -> Iterator[None]:
        """A problem where there is no place left."""
        names = ("all", f"org:{principal.org}", principal.whose)
        self._check(principal, *names)
        self._open.update(names)
        try:
            yield
        finally:
            self._open.subtract(names)
            self._open = +self._open

    def _check(self, principal: Principal, whole: str, org: str, who: str) -> None:
        if self._open[who] >= self._most_of_one:
            raise _too_many(f"{principal.name} has {self._most_of_one} streams of events open, the most")
        if not principal.at_home and self._open[org] >= max(1, self._most // 2):
            raise _too_many(f"the organization {principal.org!r} has half of all streams of events open")
        if self._open[whole] >= self._most:
            raise ProblemError(
                503,
                "no_stream_left",
                f"{self._most} streams of events are open, the most that this server has",
                hint="try again later, or raise server_streams",
                headers={"Retry-After": "15"},
            )


class EventStream(Response):
    """It ends when the server stops, when the credential does not hold any more or stands in another
    organization, and when the client has gone or does not read."""

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
        with self._site.streams.place_for(self._principal):
            following = self._site.app.changes.follow(self._principal.org, self._after)
            async with aclosing(following) as changes:
                first = await anext(changes)  # what is wrong is said before the answer begins
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await self._live(receive, asyncio.create_task(self._tell(first, changes, send)))
            await _written({"type": "http.response.body", "body": b""}, send, ENDING)

    async def _live(self, receive: Receive, telling: asyncio.Task[None]) -> None:
        """Until any reason to end has come."""
        others = [asyncio.create_task(self._site.closing.wait()), asyncio.create_task(_gone(receive))]
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
                if not await self._may_hear(change) or not await self._write(event_text(change), send):
                    return

    async def _may_hear(self, change: Change) -> bool:
        """Asked for each change: the authenticator remembers a credential for two seconds."""
        try:
            visitor = await self._site.authenticator.authenticate(self._request)
        except StoreError:  # nobody knows; a sign of life tells nothing
            return change.kind is ChangeKind.BEAT
        if visitor is None or visitor.principal.org != self._principal.org:
            return False
        return Permission.READ in visitor.principal.permissions

    async def _write(self, text: bytes, send: Send) -> bool:
        message = {"type": "http.response.body", "body": text, "more_body": True}
        return await _written(message, send, self._site.streams.write_timeout)


def event_text(change: Change) -> bytes:
    if change.kind is ChangeKind.BEAT:
        return BEAT
    head = f"id: {change.sequence}\nevent: {change.kind}\ndata: ".encode()
    return head + encoded(_data(change)) + b"\n\n"


def _data(change: Change) -> dict[str, Any]:
    """Ids, actions and numbers; never payloads or reasons."""
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


async def _written(message: Message, send: Send, write_timeout: float) -> bool:
    """False when the client does not read."""
    try:
        async with asyncio.timeout(write_timeout):
            await send(message)
    except TimeoutError:
        return False
    return True


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_many(detail: str) -> ProblemError:
    hint = "close one of them first"
    return ProblemError(429, "too_many_streams", detail, hint=hint, headers={"Retry-After": "15"})
