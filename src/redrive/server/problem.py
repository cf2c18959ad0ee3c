"""Problems: every response that is not what was asked for (RFC 9457), with a code and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from redrive.policy.redact import Redactor
from redrive.server.answer import encoded

MEDIA_TYPE = "application/problem+json"

TITLES = {
    400: "The request is malformed",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "The present state does not allow it",
    412: "It has changed since",
    408: "The request came too slowly",
    413: "The request is too large",
    414: "The address is too long",
    415: "Not JSON",
    421: "Not the host of this server",
    422: "The request cannot be processed",
    429: "Too many requests",
    500: "Something went wrong here",
    503: "Unavailable at the moment",
}


class ProblemError(HTTPException):
    """Raised anywhere below a route, it becomes the answer. FastAPI changes all but HTTP exceptions."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.code = code
        self.hint = hint
        self.more = more


def problem_response(problem: ProblemError, request_id: str, redactor: Redactor) -> Response:
    """What is wrong often repeats what was sent, which may hold a secret in the wrong place."""
    body = {
        "type": f"urn:redrive:problem:{problem.code}",
        "title": TITLES.get(problem.status_code, "Problem"),
        "status": problem.status_code,
        "code": problem.code,
        "detail": redactor.text(problem.detail),
        "hint": problem.hint,
        "request_id": request_id,
        **redactor.value(problem.more),
    }
    return Response(encoded(body), problem.status_code, problem.headers, MEDIA_TYPE)


class FieldProblem(BaseModel):
    at: str
    problem: str


class Problem(BaseModel):
    """`code` is for programs and stays as it is; `detail` and `hint` are for people. Some carry more."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str
    request_id: str
    errors: list[FieldProblem] = []
