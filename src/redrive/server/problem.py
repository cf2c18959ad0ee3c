"""Problems: error responses (RFC 9457) with a code and a hint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from msgspec import to_builtins
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from redrive import errors
from redrive.policy.redact import Redactor
from redrive.server.answer import encoded, when
from redrive.words.fact import to_json

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 20
MAX_REPORTED = 3
TAKES = "see /api/docs for the expected format"
LATER = "try again in a moment; no work was lost"

TITLES = {
    400: "The request is malformed",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Not possible in the current state",
    412: "Changed in the meantime",
    408: "The request was too slow",
    413: "The request is too large",
    414: "The address is too long",
    415: "Not JSON",
    421: "Unknown host name",
    422: "The request is not valid",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Temporarily unavailable",
}


class ProblemError(HTTPException):
    """An exception that becomes the response, wherever below a route it is raised."""

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
    """Render a problem as JSON, redacted: the detail often repeats input, which may contain a secret."""
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
    """`code` is stable, for programs; `detail` and `hint` are for people. Some problems have more fields."""

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
    """Return the problem for an exception; None if the exception is a fault of the server."""
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


def _ambiguous_id(error: errors.AmbiguousIdError) -> ProblemError:
    candidates = [candidate._asdict() | {"at": when(candidate.at)} for candidate in error.candidates]
    hint = "send more digits, or the whole id"
    return ProblemError(422, "ambiguous_id", str(error), hint=hint, candidates=candidates)


def _unavailable(code: str) -> Callable[[Any], ProblemError]:
    # The message may name the database and its address, which clients must not see.
    text = "the database is unavailable"
    return lambda error: ProblemError(503, code, text, hint=LATER, headers={"Retry-After": "2"})


def _drifted(error: errors.DriftError) -> ProblemError:
    changes = [change._asdict() | {"change": to_json(change.change)} for change in error.changes]
    hint = "check what changed, then try again with the new number or version"
    return ProblemError(409, "drift", str(error), hint=hint, number=error.number, changes=changes)


def _payload(error: errors.PayloadError) -> ProblemError:
    fields = {} if error.mismatch is None else {"mismatch": to_builtins(error.mismatch)}
    return ProblemError(422, "payload", str(error), hint="check which payload the task expects", **fields)


def _key_reused(error: errors.ConflictError) -> ProblemError:
    hint = "use a different Idempotency-Key for different work"
    return ProblemError(422, "key_reused", str(error), hint=hint, run_id=error.run_id)


def _queue_full(error: errors.QueueFullError) -> ProblemError:
    hint = "resolve, archive or clear dead letters first"
    return ProblemError(409, "queue_full", str(error), hint=hint, max_size=error.max_size)


def _query_word(error: errors.QueryWordError) -> ProblemError:
    return ProblemError(
        422,
        "invalid_value",
        str(error),
        hint=TAKES,
        word=error.word,
        position=error.position,
        suggestion=error.suggestion,
    )


def _in_progress(error: errors.InProgressError) -> ProblemError:
    wait = {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    return ProblemError(
        409, "in_progress", str(error), hint="try again after the time in Retry-After", headers=wait
    )


_KINDS: tuple[tuple[type[Exception], Callable[[Any], ProblemError]], ...] = (
    (
        errors.SealedError,
        _with_message(409, "sealed", "configure the key that it was encrypted with"),
    ),
    (errors.PayloadError, _payload),
    (errors.QueryWordError, _query_word),
    (errors.AmbiguousIdError, _ambiguous_id),
    (errors.InvalidValueError, _with_message(422, "invalid_value", TAKES)),
    (
        errors.NotFoundError,
        _with_message(404, "not_found", "check the id, or look for it in the list"),
    ),
    (
        errors.AlreadyExistsError,
        _with_message(409, "exists"),
    ),
    (errors.LastOwnerError, _with_message(409, "last_owner", "make another member an owner first")),
    (errors.ConflictError, _key_reused),
    (
        errors.KeyReusedError,
        _with_message(422, "key_reused", "use a different Idempotency-Key for a different request"),
    ),
    (errors.InProgressError, _in_progress),
    (errors.DriftError, _drifted),
    (errors.SignedOutError, _with_message(401, "not_signed_in", "sign in again")),
    (errors.AccessDeniedError, _with_message(403, "forbidden", "ask an owner of the organization")),
    (
        errors.ReplayRefusedError,
        _with_message(409, "replay_refused", "check its run and its replays"),
    ),
    (errors.TransitionError, _with_message(409, "wrong_state", "check its current state")),
    (errors.QueueFullError, _queue_full),
    (
        errors.StatementTimeoutError,
        _with_message(503, "too_slow", "narrow the query or the time range"),
    ),
    (errors.IsolationError, _with_message(409, "not_isolated", "ask an administrator of the database")),
    (errors.StoreError, _unavailable("database")),
    (errors.UnavailableError, _with_message(503, "unavailable", LATER)),
)


DUPLICATE_KEY = "duplicate key"
"""The error of a JSON body that has a key twice."""

_TEXTS = {
    "value_error": "not allowed",
    "missing": "required",
    "extra_forbidden": "unknown field",
    "model_attributes_type": "must be a JSON object",
}


def _invalid_request(error: RequestValidationError) -> ProblemError:
    found = error.errors()
    if any(detail.get("ctx", {}).get("error") == DUPLICATE_KEY for detail in found):
        text = "an object in the body has the same key twice"
        return ProblemError(400, "duplicate_key", text, hint="send each key once")
    if any(detail["type"] == "json_invalid" for detail in found):
        return ProblemError(400, "malformed_json", "the body is not valid JSON", hint="send a JSON object")
    if isinstance(error.body, bytes):  # FastAPI has not read it
        hint = "send the header Content-Type: application/json"
        return ProblemError(415, "not_json", "the body is not sent as JSON", hint=hint)
    listed = [_field_problem(detail) for detail in found[:MAX_ERRORS]]
    text = "; ".join(f"{field['at'] or 'the request'}: {field['problem']}" for field in listed[:MAX_REPORTED])
    return ProblemError(422, "invalid_request", text, hint=TAKES, errors=listed)


def _field_problem(found: dict[str, Any]) -> dict[str, str]:
    """Return the field and what is wrong with it, never its value, which may be a secret."""
    where = ".".join(str(part) for part in found["loc"])[:200]
    error, text = found.get("ctx", {}).get("error"), _TEXTS.get(found["type"], found["msg"])
    if found["type"] in _TEXTS and isinstance(error, errors.InvalidValueError):
        text = error
    return {"at": where, "problem": str(text)[:500]}


def _http(error: HTTPException) -> ProblemError:
    code = {404: "no_route", 405: "method_not_allowed"}.get(error.status_code, "http")
    detail = TITLES.get(error.status_code, "the request failed").lower()
    return ProblemError(error.status_code, code, detail, hint="see /api/docs", headers=error.headers)
