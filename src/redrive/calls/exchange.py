"""One HTTP exchange of the sync or async client: what to send, and how to interpret the response."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from redrive.calls.attempt import Attempt
from redrive.calls.event import log_response
from redrive.errors import HttpContentError, HttpStatusError, InvalidValueError
from redrive.model.step import Effect

R = TypeVar("R")

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_EXCERPT_LENGTH = 500

_IDS = {"x-request-id": "request_id", "x-run-id": "run_id", "x-correlation-id": "correlation_id"}
"""Headers with ids, and the names of these in logs."""

_EFFECTS = {
    "GET": Effect.NONE,
    "HEAD": Effect.NONE,
    "OPTIONS": Effect.NONE,
    "PUT": Effect.IDEMPOTENT,
    "DELETE": Effect.IDEMPOTENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange(Generic[R]):
    method: str
    path: str
    params: Mapping[str, str | int | float | bool] | None
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(repr=False)
    create_if_absent: bool
    returns: Callable[[Any], R] | None

    @property
    def effect(self) -> Effect:
        """POST, PATCH and unknown methods are unsafe: their side effects must not happen twice."""
        return _EFFECTS.get(self.method, Effect.UNSAFE)

    def answer(self, attempt: Attempt, status: int, headers: Mapping[str, str], body: bytes) -> R | None:
        """Return the result, or raise the error that the response means."""
        sent = {name: self.headers[header] for header, name in _IDS.items() if header in self.headers}
        log_response(attempt, status, sent)
        if 200 <= status < 300:
            return self._parse(body)
        if status == 409 and self.create_if_absent:
            return None  # it exists; the body describes the conflict, not the existing object
        raise self._status_error(status, headers, body)

    def _parse(self, body: bytes) -> R:
        try:
            value = json.loads(body) if body.strip() else None
        except (ValueError, RecursionError) as error:
            raise self._content_error("is not JSON") from error
        try:
            return value if self.returns is None else self.returns(value)  # type: ignore[return-value]
        except Exception as error:
            raise self._content_error("does not have the expected shape") from error

    def _content_error(self, problem: str) -> HttpContentError:
        return HttpContentError(f"the response to {self} {problem}")

    def _status_error(self, status: int, headers: Mapping[str, str], body: bytes) -> HttpStatusError:
        from redrive.policy.redact import DEFAULT_REDACTOR

        excerpt = DEFAULT_REDACTOR.text(body[: MAX_EXCERPT_LENGTH * 4].decode("utf-8", "replace"))
        retry_headers = {name: headers[name] for name in ("retry-after", "retry-after-ms") if name in headers}
        hint = "; redirects are not followed" if 300 <= status < 400 else ""
        message = f"{self} answered {status}{hint}"
        excerpt = excerpt[:MAX_EXCERPT_LENGTH]
        return HttpStatusError(message, status=status, headers=retry_headers, body=excerpt)

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"


class Body:
    """The body of a response, read in chunks, with a size limit and a time limit."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > MAX_BODY_BYTES:
            raise HttpContentError(f"the response body is larger than the limit of {MAX_BODY_BYTES} bytes")
        self._chunks.append(chunk)
        self._attempt.check()

    def all(self) -> bytes:
        return b"".join(self._chunks)


def encode_json(value: object) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(f"the request body cannot be encoded as JSON: {error}") from error
