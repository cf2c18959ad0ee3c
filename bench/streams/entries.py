"""The entries that all contenders read: the same type, key, user and about 200 bytes of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

import redis

STREAM = "entries"
GROUP = "bench"
BATCH = 100
_PIECE = 2_000
_FILLING = "x" * 172
_USERS = 1_000


def fields(number: int) -> dict[str, str]:
    return {
        "type": "score.changed",
        "id": f"event-{number}",
        "user": f"user-{number % _USERS}",
        "payload": json.dumps({"number": number, "text": _FILLING}),
    }


def publish(url: str, count: int, start: int = 0) -> None:
    with redis.Redis.from_url(url) as client:
        for numbers in _pieces(start, count):
            pipeline = client.pipeline(transaction=False)
            for number in numbers:
                pipeline.xadd(STREAM, fields(number))
            pipeline.execute()


def create_group(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)


def leave_pending(url: str, count: int) -> None:
    """Let a consumer that is gone have read so many entries without an acknowledgement."""
    publish(url, count, start=10_000_000)
    with redis.Redis.from_url(url) as client:
        while client.xreadgroup(GROUP, "gone", {STREAM: ">"}, count=_PIECE):
            pass


def _pieces(start: int, count: int) -> Iterator[range]:
    for first in range(start, start + count, _PIECE):
        yield range(first, min(start + count, first + _PIECE))
