"""The answer of the application: gathered on its way, kept under its key before its end is sent.

What the client has received completely is therefore stored. The beginning is held back until there is a body,
so that a problem can still take its place.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from redrive.asgi.http import Http, Message, ProblemAnswer, Send, send_problem, send_whole
from redrive.errors import LeaseLostError, NotStorableError, StoreError
from redrive.idempotency.hold import Hold
from redrive.policy.codec import JsonValue
from redrive.policy.idempotency_key import is_kept

KEPT_HEADERS = frozenset(
    {
        b"content-type",
        b"content-encoding",
        b"content-language",
        b"content-location",
        b"content-disposition",
        b"etag",
        b"last-modified",
        b"link",
        b"location",
    }
)
_WITHOUT_BODY = frozenset({204, 304})
_TOO_LARGE = "was too large to be kept"
_WITH_COOKIE = "sets a cookie, which is never kept"


class Answer:
    """A `send` for the application. `most` is how many bytes of the body are kept."""

    def __init__(self, hold: Hold, http: Http, send: Send, most: int) -> None:
        self._hold = hold
        self._http = http
        self._send = send
        self._most = most
        self._start: Message | None = None
        self._body: bytearray | None = bytearray()
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._gone = False
        self.has_begun = False
        """Has anything been sent? Then no problem can take its place any more."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start, self._status = message, message["status"]
            self._headers = [(name.lower(), value) for name, value in message.get("headers", ())]
        elif message["type"] != "http.response.body":
            await self._forward(message)
        else:
            self._gather(message.get("body", b""))
            if message.get("more_body", False):
                await self._pass_on(message)
            else:
                await self._end(message)

    def _gather(self, part: bytes) -> None:
        if self._body is not None:
            self._body += part
            if len(self._body) > self._most:
                self._body = None

    async def _end(self, message: Message) -> None:
        try:
            await self._keep()
        except LeaseLostError:
            if self.has_begun:
                raise
            await send_problem(TAKEN_OVER, self._http, self._send)
            return
        except StoreError:
            pass  # it was executed: the true answer is worth more than an error
        await self._pass_on(message)

    async def _keep(self) -> None:
        if not is_kept(self._status):
            await self._hold.release()
            return
        try:
            await self._hold.complete(self._kept())
        except NotStorableError:
            await self._hold.complete(_left_out(self._status, _TOO_LARGE))

    def _kept(self) -> JsonValue:
        if any(name == b"set-cookie" for name, _ in self._headers):
            return _left_out(self._status, _WITH_COOKIE)
        if self._body is None:
            return _left_out(self._status, _TOO_LARGE)
        headers: list[JsonValue] = [
            [name.decode("latin-1"), value.decode("latin-1")]
            for name, value in self._headers
            if name in KEPT_HEADERS
        ]
        return {"status": self._status, "headers": headers, **_written(bytes(self._body))}

    async def _pass_on(self, message: Message) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            self.has_begun = True
            await self._forward(start)
        await self._forward(message)

    async def _forward(self, message: Message) -> None:
        """A client that has gone comes again with its key: the answer is gathered for then."""
        if self._gone and self._body is not None:
            return
        try:
            await self._send(message)
        except OSError:
            self._gone = True
            if self._body is None:
                raise


async def replay(stored: Any, http: Http, send: Send) -> None:
    """Give the answer that was kept once more."""
    if "left_out" in stored:
        await send_problem(_not_kept(stored), http, send)
        return
    body = b64decode(stored["base64"]) if "base64" in stored else stored["body"].encode()
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in stored["headers"]]
    if stored["status"] not in _WITHOUT_BODY:
        headers.append((b"content-length", b"%d" % len(body)))
    headers.append((b"idempotency-replayed", b"true"))
    await send_whole(stored["status"], headers, body, send)


def _written(body: bytes) -> dict[str, JsonValue]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def _left_out(status: int, reason: str) -> JsonValue:
    return {"status": status, "left_out": reason}


def _not_kept(stored: Any) -> ProblemAnswer:
    return ProblemAnswer(
        409,
        "answer_not_kept",
        f"the request with this Idempotency-Key was carried out and answered with the status "
        f"{stored['status']}, but the answer {stored['left_out']}; it is not carried out again",
        "look at what it has changed, and use a new key for a new request",
    )


TAKEN_OVER = ProblemAnswer(
    409,
    "in_progress",
    "this request took too long without a sign of life, and another one with the same Idempotency-Key has "
    "taken its place",
    "ask again with the same key for its answer",
    retry_after=1.0,
)
