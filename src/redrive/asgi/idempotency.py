"""Middleware for idempotent HTTP requests, with the header Idempotency-Key.

    app.add_middleware(IdempotencyMiddleware, redrive=redrive, scope_of=lambda http: Scope(user=user(http)))

The middleware executes the first request with a key and stores the response. When the request is repeated,
it sends the stored response with the header `Idempotency-Replayed: true`. Two requests are the same if they
have the same method, path, query, content type and body.

    400  the key is malformed, or missing although it is required
    409  the request is in progress; Retry-After says when to repeat it
    413  the body is too large to compare
    422  the key was used with a different request

Responses with 5xx, 401, 403, 408, 409, 425 and 429 are not stored and release the key, as does an exception
or a cancellation of the application. A response that sets a cookie or is too large is sent but not stored.
The request is not executed again; repeating it returns 409 `answer_not_kept`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from redrive.asgi.answer import TAKEN_OVER, Answer, replay
from redrive.asgi.http import (
    Application,
    DisconnectedError,
    Http,
    ProblemAnswer,
    Receive,
    RefusedError,
    Reread,
    Send,
    header_values,
    read_body,
    send_problem,
)
from redrive.duration import Seconds, to_seconds
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.errors import InProgressError, InvalidKeyError, KeyReusedError, LeaseLostError, StoreError
from redrive.idempotency.hold import Hold
from redrive.idempotency.service import DAY, LEASE_SECONDS, StoredOutcome
from redrive.parts import parts_of
from redrive.policy.idempotency_key import key_in_header

if TYPE_CHECKING:
    from redrive.app import Redrive

HEADER = b"idempotency-key"
DOMAIN = "http"
MEBIBYTE = 1_048_576
_BYPASSING = frozenset({"http.response.pathsend", "http.response.zerocopysend", "http.response.trailers"})
"""ASGI extensions that would send a response past this middleware."""


class Scope(NamedTuple):
    """The owner of a key. Keys of different users and organizations are independent."""

    org: str = DEFAULT_ORG
    user: str = ""


class IdempotencyMiddleware:
    """Executes requests with an Idempotency-Key once.

    scope_of        returns the owner of a request from its ASGI scope; None passes the request on unchanged
    required        reject requests without the header
    ttl             seconds until a stored response is deleted
    lease_seconds   seconds after which a crashed server loses the key
    max_body_bytes  maximum length of a request body
    """

    def __init__(
        self,
        app: Application,
        redrive: Redrive,
        *,
        scope_of: Callable[[Http], Scope | None],
        methods: Iterable[str] = ("POST", "PATCH"),
        required: bool = False,
        ttl: Seconds = DAY,
        lease_seconds: Seconds = LEASE_SECONDS,
        max_body_bytes: int = MEBIBYTE,
    ) -> None:
        self._app = app
        self._redrive = redrive
        self._scope_of = scope_of
        self._methods = frozenset(methods)
        self._required = required
        self._ttl = to_seconds(ttl)
        self._lease_seconds = to_seconds(lease_seconds)
        self._max_body_bytes = max_body_bytes

    async def __call__(self, http: Http, receive: Receive, send: Send) -> None:
        applies = http["type"] == "http" and http["method"] in self._methods
        scope = self._scope_of(http) if applies else None
        if scope is None or not (self._required or header_values(http, HEADER)):
            await self._app(http, receive, send)
            return
        try:
            key = _key_of(http)
            body = await read_body(http, receive, self._max_body_bytes)
            taken = await self._take(key, scope, http, body)
        except DisconnectedError:
            return
        except RefusedError as refused:
            await send_problem(refused.problem, http, send)
            return
        if isinstance(taken, StoredOutcome):
            await replay(taken.value, http, send)
        else:
            await self._execute(taken, http, Reread(body, receive), send)

    async def _take(self, key: str, scope: Scope, http: Http, body: bytes) -> StoredOutcome | Hold:
        try:
            return await self._redrive.idempotent.take(
                key,
                _identity(http, body),
                org=scope.org,
                domain=DOMAIN,
                user=scope.user,
                ttl=self._ttl,
                lease_seconds=self._lease_seconds,
            )
        except KeyReusedError as error:
            hint = "use a new key for a new request"
            raise RefusedError(ProblemAnswer(422, "key_reused", self._detail(error), hint)) from None
        except InProgressError as error:
            hint = "repeat the request later with the same key"
            problem = ProblemAnswer(409, "in_progress", self._detail(error), hint, error.retry_after)
            raise RefusedError(problem) from None
        except StoreError:
            raise RefusedError(_UNAVAILABLE) from None

    def _detail(self, error: Exception) -> str:
        """Return the redacted message: it contains the key, and a client may have put a secret into it."""
        return parts_of(self._redrive).redactor.text(str(error))

    async def _execute(self, hold: Hold, http: Http, receive: Receive, send: Send) -> None:
        answer = Answer(hold, http, send, parts_of(self._redrive).limits.size)
        try:
            async with hold:
                await self._app(_without_bypassing(http), receive, answer)
        except LeaseLostError:
            if answer.has_started or not hold.lost:
                raise
            await send_problem(TAKEN_OVER, http, send)


def _key_of(http: Http) -> str:
    values = header_values(http, HEADER)
    if not values:
        raise RefusedError(_MISSING)
    try:
        return key_in_header(values)
    except InvalidKeyError as error:
        raise RefusedError(ProblemAnswer(400, "key_malformed", str(error), _QUOTE)) from None


def _identity(http: Http, body: bytes) -> list[str]:
    path: bytes = http.get("raw_path") or http["path"].encode()
    return [
        http["method"],
        path.decode("latin-1"),
        http.get("query_string", b"").decode("latin-1"),
        ",".join(header_values(http, b"content-type")),
        sha256(body).hexdigest(),
    ]


def _without_bypassing(http: Http) -> Http:
    extensions = http.get("extensions") or {}
    allowed = {name: value for name, value in extensions.items() if name not in _BYPASSING}
    return {**http, "extensions": allowed} if extensions else http


_QUOTE = 'send a header such as Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324" with your own value'
_MISSING = ProblemAnswer(400, "key_missing", "this request needs the header Idempotency-Key", _QUOTE)
_UNAVAILABLE = ProblemAnswer(
    503,
    "database",
    "the database is unavailable; nothing was executed",
    "repeat the request later with the same key",
    retry_after=2.0,
)
