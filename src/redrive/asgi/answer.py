"""Record the application's response, and store it under its key before sending the last part.

So a response that the client received completely is always stored. The response headers wait until the first
part of the body, so that a problem response can still replace them.
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
_TOO_LARGE = "was too large to store"
_WITH_COOKIE = "sets a cookie, which Redrive never stores"


class Answer:
    """A `send` for the application. It stores a body of at most `max_bytes`."""

    def __init__(self, hold: Hold, http: Http, send: Send, max_bytes: int) -> None:
        self._hold = hold
        self._http = http
        self._send = send
        self._max_bytes = max_bytes
        self._start: Message | None = None
        self._body: bytearray | None = bytearray()
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_disconnected = False
        self.has_started = False
        """Whether anything has been sent, so that a problem response is no longer possible."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start, self._status = message, message["status"]
            self._headers = [(name.lower(), value) for name, value in message.get("headers", ())]
        elif message["type"] != "http.response.body":
            await self._forward(message)
        else:
            self._record(message.get("body", b""))
            if message.get("more_body", False):
                await self._send_part(message)
            else:
                await self._finish(message)

    def _record(self, part: bytes) -> None:
        if self._body is not None:
            self._body += part
            if len(self._body) > self._max_bytes:
                self._body = None

    async def _finish(self, message: Message) -> None:
        try:
            await self._store()
        except LeaseLostError:
            if self.has_started:
                raise
            await send_problem(TAKEN_OVER, self._http, self._send)
            return
        except StoreError:
            pass  # the request was executed, so its response is worth more than an error
        await self._send_part(message)

    async def _store(self) -> None:
        if not is_kept(self._status):
            await self._hold.release()
            return
        try:
            await self._hold.complete(self._stored_response())
        except NotStorableError:
            await self._hold.complete(_without_response(self._status, _TOO_LARGE))

    def _stored_response(self) -> JsonValue:
        if any(name == b"set-cookie" for name, _ in self._headers):
            return _without_response(self._status, _WITH_COOKIE)
        if self._body is None:
            return _without_response(self._status, _TOO_LARGE)
        headers: list[JsonValue] = [
            [name.decode("latin-1"), value.decode("latin-1")]
            for name, value in self._headers
            if name in KEPT_HEADERS
        ]
        return {"status": self._status, "headers": headers, **_encoded(bytes(self._body))}

    async def _send_part(self, message: Message) -> None:
        """Send a part of the body, preceded by the status and headers if they have not been sent."""
        if self._start is not None:
            start, self._start = self._start, None
            self.has_started = True
            await self._forward(start)
        await self._forward(message)

    async def _forward(self, message: Message) -> None:
        """Send a message. After a disconnect, keep recording, because the client may repeat the request."""
        if self._is_disconnected and self._body is not None:
            return
        try:
            await self._send(message)
        except OSError:
            self._is_disconnected = True
            if self._body is None:
                raise


async def replay(stored: Any, http: Http, send: Send) -> None:
    """Send a stored response again."""
    if "left_out" in stored:
        await send_problem(_not_stored(stored), http, send)
        return
    body = b64decode(stored["base64"]) if "base64" in stored else stored["body"].encode()
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in stored["headers"]]
    if stored["status"] not in _WITHOUT_BODY:
        headers.append((b"content-length", b"%d" % len(body)))
    headers.append((b"idempotency-replayed", b"true"))
    await send_whole(stored["status"], headers, body, send)


def _encoded(body: bytes) -> dict[str, JsonValue]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def _without_response(status: int, reason: str) -> JsonValue:
    return {"status": status, "left_out": reason}


def _not_stored(stored: Any) -> ProblemAnswer:
    return ProblemAnswer(
        409,
        "answer_not_kept",
        f"the request with this Idempotency-Key was executed and answered with status {stored['status']}, "
        f"but the response {stored['left_out']}. The request is not executed again",
        "check what the request changed, and use a new key for a new request",
    )


TAKEN_OVER = ProblemAnswer(
    409,
    "in_progress",
    "the server lost the lease on this Idempotency-Key before the request finished, and another request with "
    "the same key has taken over",
    "repeat the request with the same key to get the response",
    retry_after=1.0,
)
