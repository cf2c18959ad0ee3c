"""Limits of request bodies, in size and in time."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redrive.server.problem import ProblemError

SECONDS = 30.0
"""For the whole body of a request."""


class BodyLimits:
    def __init__(self, app: ASGIApp, most: int, seconds: float = SECONDS) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._check(declared(Headers(scope=scope)))
        await self._app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        until = asyncio.get_running_loop().time() + self._seconds
        taken, whole = 0, False

        async def receiving() -> Message:
            nonlocal taken, whole
            if whole:  # what is left is to hear that the client has gone, however late
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise _too_slow(self._seconds) from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            self._check(taken)
            return message

        return receiving

    def _check(self, size: int) -> None:
        if size > self._most:
            raise ProblemError(
                413,
                "body_too_large",
                f"the body has more than {self._most:,} bytes",
                hint="keep large data elsewhere and send a reference, or raise server_body_bytes",
                headers={"Connection": "close"},
            )


def declared(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 19 else 0


def _too_slow(seconds: float) -> ProblemError:
    return ProblemError(
        408,
        "body_too_slow",
        f"the body did not arrive within {seconds:g} s",
        hint="send it in one go",
        headers={"Connection": "close"},
    )
