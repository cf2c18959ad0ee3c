"""Problems: every response that is not what was asked for (RFC 9457), with a code and a hint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from redrive import errors
from redrive.policy.redact import Redactor
from redrive.server.answer import encoded

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 20
MAX_REPORTED = 3
TAKES = "see /api/docs for what it takes"
LATER = "try again a little later; nothing was lost"

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


# Exceptions of the application as problems


def problem_of(error: Exception) -> ProblemError | None:
    """None for an exception that is a fault of the server."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid_request(error)
    if isinstance(error, HTTPException):
        return _http(error)
    for kind, make in _KINDS:
        if isinstance(error, kind):
            return make(error)
    return None


def _with_message(status: int, code: str, hint: str = "") -> Callable[[Any], ProblemError]:
    return lambda error: ProblemError(status, code, str(error), hint=hint)


def _unavailable(code: str) -> Callable[[Any], ProblemError]:
    # The message may name the database and where it is: that is nothing for a client.
    text = "the database cannot be used at the moment"
    return lambda error: ProblemError(503, code, text, hint=LATER, headers={"Retry-After": "2"})


def _drifted(error: errors.DriftError) -> ProblemError:
    changes = [change._asdict() for change in error.changes]
    hint = "look at what has changed, and ask again with the new number or version"
    return ProblemError(409, "drift", str(error), hint=hint, number=error.number, changes=changes)


def _key_reused(error: errors.ConflictError) -> ProblemError:
    hint = "use another Idempotency-Key for other work"
    return ProblemError(422, "key_reused", str(error), hint=hint, run_id=error.run_id)


def _queue_full(error: errors.QueueFullError) -> ProblemError:
    hint = "resolve, archive or clear dead letters first"
    return ProblemError(409, "queue_full", str(error), hint=hint, max_size=error.max_size)


def _in_progress(error: errors.InProgressError) -> ProblemError:
    wait = {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    return ProblemError(409, "in_progress", str(error), hint="ask again after a while", headers=wait)


_KINDS: tuple[tuple[type[Exception], Callable[[Any], ProblemError]], ...] = (
    (
        errors.SealedError,
        _with_message(409, "sealed", "configure the encryption key that it was sealed with"),
    ),
    (errors.PayloadError, _with_message(422, "payload", "look at what the task takes")),
    (errors.InvalidValueError, _with_message(422, "invalid_value", TAKES)),
    (errors.NotFoundError, _with_message(404, "not_found", "look for it in the list of its kind")),
    (
        errors.AlreadyExistsError,
        _with_message(409, "exists", "change the one that is there, or choose another name"),
    ),
    (errors.LastOwnerError, _with_message(409, "last_owner", "make another member an owner first")),
    (errors.ConflictError, _key_reused),
    (
        errors.KeyReusedError,
        _with_message(422, "key_reused", "use another Idempotency-Key for another request"),
    ),
    (errors.InProgressError, _in_progress),
    (errors.DriftError, _drifted),
    (errors.SignedOutError, _with_message(401, "not_signed_in", "sign in again")),
    (errors.AccessDeniedError, _with_message(403, "forbidden", "ask an owner of the organization")),
    (
        errors.ReplayRefusedError,
        _with_message(409, "replay_refused", "look at its run and its replays first"),
    ),
    (errors.TransitionError, _with_message(409, "wrong_state", "look at its present state first")),
    (errors.QueueFullError, _queue_full),
    (
        errors.StatementTimeoutError,
        _with_message(503, "too_slow", "narrow the query, or ask for a shorter time"),
    ),
    (errors.StoreError, _unavailable("database")),
    (errors.UnavailableError, _with_message(503, "unavailable", LATER)),
)


_WORDS = {
    "value_error": "it is not allowed",
    "missing": "it is missing",
    "extra_forbidden": "there is no such field here",
    "model_attributes_type": "it must be a JSON object",
}


def _invalid_request(error: RequestValidationError) -> ProblemError:
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return ProblemError(400, "malformed_json", "the body is not JSON", hint="send one JSON object")
    if isinstance(error.body, bytes):  # FastAPI has not read it
        hint = "send the header Content-Type: application/json"
        return ProblemError(415, "not_json", "the body is not declared as JSON", hint=hint)
    listed = [_field_problem(each) for each in found[:MAX_ERRORS]]
    detail = "; ".join(f"{each['at'] or 'the request'}: {each['problem']}" for each in listed[:MAX_REPORTED])
    return ProblemError(422, "invalid_request", detail, hint=TAKES, errors=listed)


def _field_problem(found: dict[str, Any]) -> dict[str, str]:
    """Where, and what is wrong there; never what was sent, which may be a secret."""
    where = ".".join(str(part) for part in found["loc"])[:200]
    error, text = found.get("ctx", {}).get("error"), _WORDS.get(found["type"], found["msg"])
    if found["type"] in _WORDS and isinstance(error, errors.InvalidValueError):
        text = error
    return {"at": where, "problem": str(text)[:500]}


def _http(error: HTTPException) -> ProblemError:
    code = {404: "no_route", 405: "method_not_allowed"}.get(error.status_code, "http")
    detail = TITLES.get(error.status_code, "the request cannot be answered").lower()
    return ProblemError(error.status_code, code, detail, hint="see /api/docs", headers=error.headers)
