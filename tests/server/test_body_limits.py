"""Limits of request bodies: the server never waits forever for missing bytes (security baseline)."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from redrive.server.limits import BodyLimits
from redrive.server.problem import ProblemError

SECONDS = 10.0
"""The time limit of a test, in seconds."""

HTTP: Scope = {"type": "http", "headers": []}
PIECE: Message = {"type": "http.request", "body": b"x", "more_body": True}
LAST: Message = {"type": "http.request", "body": b"x", "more_body": False}


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def ignored(message: Message) -> None:
    raise AssertionError(message)


def reading(times: int, read: list[Message]) -> BodyLimits:
    """Return an application that reads a number of messages without a delay."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while len(read) < times:
            read.append(await receive())

    return BodyLimits(app, most=100, seconds=0.01)


@pytest.mark.parametrize("pieces", [0, 2])
async def test_a_body_that_does_not_come_is_refused(pieces: int) -> None:
    read: list[Message] = []
    coming = [PIECE] * pieces

    async def receive() -> Message:
        return coming.pop() if coming else await never()

    with pytest.raises(ProblemError) as refused:
        await asyncio.wait_for(reading(pieces + 1, read)(HTTP, receive, ignored), SECONDS)

    assert (refused.value.status_code, refused.value.code) == (408, "body_too_slow")
    assert len(read) == pieces


async def test_a_client_that_has_sent_its_request_may_wait() -> None:
    """A stream of events learns this way that its client has disconnected."""
    read: list[Message] = []
    gone = asyncio.Event()
    coming = [LAST]

    async def receive() -> Message:
        if coming:
            asyncio.get_running_loop().call_later(0.05, gone.set)
            return coming.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    await asyncio.wait_for(reading(2, read)(HTTP, receive, ignored), SECONDS)

    assert [each["type"] for each in read] == ["http.request", "http.disconnect"]
