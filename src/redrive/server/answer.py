"""Answers: JSON out of what the application gives, with times in RFC 3339."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from starlette.responses import Response

_encode = msgspec.json.Encoder().encode
_PARTS = [f".{part:03}Z" for part in range(1000)]
"""Of a second: a page has hundreds of moments, and each would be written anew."""


def encoded(value: Any) -> bytes:
    """Text that somebody has sent may hold half of a character, which no UTF-8 can: it is marked as lost."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(value), status, dict(headers or {}), "application/json")


def etag(version: str) -> dict[str, str]:
    """Return the header that tells the version of what people edit."""
    return {"ETag": f'"{version}"'}


def nothing() -> Response:
    return Response(status_code=204)


def when(moment: float | None) -> str | None:
    """Seconds since 1970 as people and programs read them."""
    if moment is None:
        return None
    thousandths = round(moment * 1000.0)
    return _second(thousandths // 1000) + _PARTS[thousandths % 1000]


@lru_cache(maxsize=4096)
def _second(second: int) -> str:
    """Most moments of a page lie in few seconds, and writing one takes longer than looking it up."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def page(items: list[Any], next_cursor: str | None, **more: Any) -> Response:
    return answer({"items": items, "next_cursor": next_cursor, **more})
