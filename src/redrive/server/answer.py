"""JSON responses, with times in RFC 3339."""

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
"""The milliseconds of a time, formatted once: a page has hundreds of times."""


def encoded(value: Any) -> bytes:
    """Encode as JSON. Unpaired surrogates, which UTF-8 can't encode, become replacement characters."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(value), status, dict(headers or {}), "application/json")


def etag(version: str) -> dict[str, str]:
    """Return the header with the version of a resource."""
    return {"ETag": f'"{version}"'}


def nothing() -> Response:
    return Response(status_code=204)


def when(moment: float | None) -> str | None:
    """Format seconds since 1970 as an RFC 3339 time."""
    if moment is None:
        return None
    thousandths = round(moment * 1000.0)
    return _second(thousandths // 1000) + _PARTS[thousandths % 1000]


@lru_cache(maxsize=4096)
def _second(second: int) -> str:
    """Format a second. Cached: most times on a page share a few seconds."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def page(items: list[Any], next_cursor: str | None, **more: Any) -> Response:
    return answer({"items": items, "next_cursor": next_cursor, **more})
