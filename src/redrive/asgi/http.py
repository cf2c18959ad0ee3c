"""HTTP over ASGI: types of the specification, headers, request bodies, and problem responses (RFC 9457)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from json import dumps
from math import ceil
from typing import Any, NamedTuple, TypeAlias

Http: TypeAlias = MutableMapping[str, Any]
"""The ASGI scope: the request without its body."""
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Http, Receive, Send], Awaitable[None]]

_TITLES = {
    400: "The request is malformed",
    409: "Conflict with the current state",
    413: "The request is too large",
    422: "The request can't be processed",
    503: "Temporarily unavailable",
}


def header_values(http: Http, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in http["headers"] if key.lower() == name]


class ProblemAnswer(NamedTuple):
    """A problem response. `retry_after` is in seconds."""

    status: int
    code: str
    detail: str
    hint: str
    retry_after: float | None = None


class RefusedError(Exception):
    """Rejects a request before the application is called. The response is `problem`."""

    def __init__(self, problem: ProblemAnswer) -> None:
        super().__init__(problem.detail)
        self.problem = problem


async def send_problem(problem: ProblemAnswer, scope: Http, send: Send) -> None:
    content = {
        "type": f"urn:redrive:problem:{problem.code}",
        "title": _TITLES[problem.status],
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "hint": problem.hint,
    }
    request_id = scope.get("state", {}).get("request_id")
    if isinstance(request_id, str):
        content["request_id"] = request_id
    body = dumps(content, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    if problem.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, ceil(problem.retry_after))))
    await send_whole(problem.status, headers, body, send)


async def send_whole(status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, send: Send) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body, "more_body": False})


class DisconnectedError(Exception):
    """The client disconnected before it had sent the whole request, so no response is possible."""


async def read_body(http: Http, receive: Receive, max_bytes: int) -> bytes:
    """Read the whole body. Raise RefusedError (413) as soon as it turns out to be longer than `max_bytes`."""
    declared = header_values(http, b"content-length")
    size = int(declared[0][:20]) if declared and declared[0].isdecimal() else 0
    _check_size(size, max_bytes)
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        body += message.get("body", b"")
        _check_size(len(body), max_bytes)
        more = message.get("more_body", False)
    return bytes(body)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        detail = f"the body of a request with an Idempotency-Key may have at most {max_bytes:,} bytes"
        hint = "send a smaller body, or upload large data elsewhere and send a reference to it"
        raise RefusedError(ProblemAnswer(413, "body_too_large", detail, hint))


class Reread:
    """A `receive` that first returns a body that was already read, then passes on further messages."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
