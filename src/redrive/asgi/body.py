"""The body of a request: read whole, within a bound, and handed on to the application."""

from __future__ import annotations

from redrive.asgi.problem import ProblemAnswer, RefusedError
from redrive.asgi.types import Http, Message, Receive, header_values


class DisconnectedError(Exception):
    """The client went away before its request was complete: nobody is there to be answered."""


async def read_body(http: Http, receive: Receive, most: int) -> bytes:
    announced = header_values(http, b"content-length")
    if announced and announced[0].isdecimal() and int(announced[0][:20]) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        more = message.get("more_body", False)
    return b"".join(parts)


class Reread:
    """A `receive` that gives the body once more, and then whatever else comes."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _too_large(most: int) -> RefusedError:
    return RefusedError(
        ProblemAnswer(
            413,
            "body_too_large",
            f"the body of a request with an Idempotency-Key has at most {most:,} bytes",
            "send less, or send large data elsewhere and refer to it",
        )
    )
