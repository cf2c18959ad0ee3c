"""Refusing a request: problem details (RFC 9457) with a code and a hint."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from math import ceil
from typing import NamedTuple

from redrive.asgi.types import Http, Send

_TITLES = {
    400: "The request is malformed",
    409: "The present state does not allow it",
    413: "The request is too large",
    422: "The request cannot be processed",
    503: "Unavailable at the moment",
}


class ProblemAnswer(NamedTuple):
    """`retry_after` is in seconds."""

    status: int
    code: str
    detail: str
    hint: str
    retry_after: float | None = None


class RefusedError(Exception):
    """Raised while a request is looked at: the problem is the answer."""

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
    await send_whole(problem.status, [*headers, *_waiting(problem)], body, send)


async def send_whole(status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, send: Send) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _waiting(problem: ProblemAnswer) -> list[tuple[bytes, bytes]]:
    if problem.retry_after is None:
        return []
    return [(b"retry-after", b"%d" % max(1, ceil(problem.retry_after)))]
