"""From an exception of the application to the problem that a client is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from redrive import errors
from redrive.server.problem import TITLES, ProblemError

MAX_ERRORS = 20
MAX_REPORTED = 3
TAKES = "see /api/docs for what it takes"
LATER = "try again a little later; nothing was lost"


def problem_of(error: Exception) -> ProblemError | None:
    """None for what nobody has foreseen: that is a fault of the server."""
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


def _said(status: int, code: str, hint: str = "") -> Callable[[Any], ProblemError]:
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
    (errors.SealedError, _said(409, "sealed", "configure the encryption key that it was sealed with")),
    (errors.PayloadError, _said(422, "payload", "look at what the task takes")),
    (errors.InvalidValueError, _said(422, "invalid_value", TAKES)),
    (errors.NotFoundError, _said(404, "not_found", "look for it in the list of its kind")),
    (errors.AlreadyExistsError, _said(409, "exists", "change the one that is there, or choose another name")),
    (errors.LastOwnerError, _said(409, "last_owner", "make another member an owner first")),
    (errors.ConflictError, _key_reused),
    (errors.KeyReusedError, _said(422, "key_reused", "use another Idempotency-Key for another request")),
    (errors.InProgressError, _in_progress),
    (errors.DriftError, _drifted),
    (errors.SignedOutError, _said(401, "not_signed_in", "sign in again")),
    (errors.AccessDeniedError, _said(403, "forbidden", "ask an owner of the organization")),
    (errors.ReplayRefusedError, _said(409, "replay_refused", "look at its run and its replays first")),
    (errors.TransitionError, _said(409, "wrong_state", "look at its present state first")),
    (errors.QueueFullError, _queue_full),
    (errors.StatementTimeoutError, _said(503, "too_slow", "narrow the query, or ask for a shorter time")),
    (errors.StoreError, _unavailable("database")),
    (errors.UnavailableError, _said(503, "unavailable", LATER)),
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
    listed = [_entry(each) for each in found[:MAX_ERRORS]]
    detail = "; ".join(f"{each['at'] or 'the request'}: {each['problem']}" for each in listed[:MAX_REPORTED])
    return ProblemError(422, "invalid_request", detail, hint=TAKES, errors=listed)


def _entry(each: dict[str, Any]) -> dict[str, str]:
    """Where, and what is wrong there; never what was sent, which may be a secret."""
    where = ".".join(str(part) for part in each["loc"])[:200]
    return {"at": where, "problem": (_own(each) if each["type"] in _WORDS else str(each["msg"]))[:500]}


def _own(each: dict[str, Any]) -> str:
    error = each.get("ctx", {}).get("error")
    return str(error) if isinstance(error, errors.InvalidValueError) else _WORDS[each["type"]]


def _http(error: HTTPException) -> ProblemError:
    code = {404: "no_route", 405: "method_not_allowed"}.get(error.status_code, "http")
    detail = TITLES.get(error.status_code, "the request cannot be answered").lower()
    return ProblemError(error.status_code, code, detail, hint="see /api/docs", headers=error.headers)
