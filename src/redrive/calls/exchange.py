"""One HTTP exchange, for the sync and the async client: what to send, and what the response means."""

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
        """POST, PATCH and unknown methods have side effects that must not happen twice."""
        return _EFFECTS.get(self.method, Effect.UNSAFE)

    def answer(self, attempt: Attempt, status: int, headers: Mapping[str, str], body: bytes) -> R | None:
        """Return the result, or raise the error that the response stands for."""
        log_response(attempt, status)
        if 200 <= status < 300:
            return self._parsed(body)
        if status == 409 and self.create_if_absent:
            return None  # it exists; what the server says about the conflict is not the thing itself
        raise self._status_error(status, headers, body)

    def _parsed(self, body: bytes) -> R:
        try:
            value = json.loads(body) if body.strip() else None
        except (ValueError, RecursionError) as error:
            raise self._not("JSON") from error
        try:
            return value if self.returns is None else self.returns(value)  # type: ignore[return-value]
        except Exception as error:
            raise self._not("what was expected") from error

    def _not(self, what: str) -> HttpContentError:
        return HttpContentError(f"{self} answered with something that is not {what}")

    def _status_error(self, status: int, headers: Mapping[str, str], body: bytes) -> HttpStatusError:
        from redrive.policy.redact import DEFAULT_REDACTOR

        excerpt = DEFAULT_REDACTOR.text(body[: MAX_EXCERPT_LENGTH * 4].decode("utf-8", "replace"))
        kept = {name: headers[name] for name in ("retry-after", "retry-after-ms") if name in headers}
        hint = "; redirects are not followed" if 300 <= status < 400 else ""
        message = f"{self} answered {status}{hint}"
        return HttpStatusError(message, status=status, headers=kept, body=excerpt[:MAX_EXCERPT_LENGTH])

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"


class Body:
    """The body of a response, read in chunks within limits of size and time."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_BODY_BYTES:
            raise HttpContentError(f"the answer is larger than {MAX_BODY_BYTES} bytes")
        self._pieces.append(piece)
        self._attempt.check()

    def all(self) -> bytes:
        return b"".join(self._pieces)


def encode_json(value: object) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(f"the request body cannot be written as JSON: {error}") from error
