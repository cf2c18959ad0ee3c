"""Idempotent HTTP requests: middleware for the header Idempotency-Key.

    app.add_middleware(IdempotencyMiddleware, redrive=redrive, scope_of=lambda http: Scope(user=user(http)))

The first request with a key is executed; its answer is stored, and given to whoever repeats the request, with
the header `Idempotency-Replayed: true`. The request is its method, path, query, content type and body.

    400  the key is malformed, or missing where it is required
    409  the request is being executed; Retry-After says when to look again
    413  the body is too large to be looked at
    422  the key came with another request before

5xx, 401, 403, 408, 409, 425 and 429 are not stored: the key is released, as when the application raises or is
cancelled. An answer that sets a cookie or is too large is sent but not kept, and the request is not executed
again: whoever repeats it is told so with 409 `answer_not_kept`.
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
from redrive.idempotency.service import DAY, LEASE_SECONDS, KeptOutcome
from redrive.parts import parts_of
from redrive.policy.idempotency_key import key_in_header

if TYPE_CHECKING:
    from redrive.app import Redrive

HEADER = b"idempotency-key"
DOMAIN = "http"
MEBIBYTE = 1_048_576
_SENT_ALONE = frozenset({"http.response.pathsend", "http.response.zerocopysend", "http.response.trailers"})
"""Extensions by which an answer would pass without being seen."""


class Scope(NamedTuple):
    """Whose key it is. Nobody is given the stored answer of another user, or in another organization."""

    org: str = DEFAULT_ORG
    user: str = ""


class IdempotencyMiddleware:
    """`scope_of` tells from the ASGI scope who is asking; None: this request is passed on as it is."""

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
        most_body: int = MEBIBYTE,
    ) -> None:
        self._app = app
        self._redrive = redrive
        self._scope_of = scope_of
        self._methods = frozenset(methods)
        self._required = required
        self._ttl = to_seconds(ttl)
        self._lease_seconds = to_seconds(lease_seconds)
        self._most_body = most_body

    async def __call__(self, http: Http, receive: Receive, send: Send) -> None:
        concerns_us = http["type"] == "http" and http["method"] in self._methods
        who = self._scope_of(http) if concerns_us else None
        if who is None or not (self._required or header_values(http, HEADER)):
            await self._app(http, receive, send)
            return
        try:
            key = _key_of(http)
            body = await read_body(http, receive, self._most_body)
            taken = await self._take(key, who, http, body)
        except DisconnectedError:
            return
        except RefusedError as refused:
            await send_problem(refused.problem, http, send)
            return
        if isinstance(taken, KeptOutcome):
            await replay(taken.value, http, send)
        else:
            await self._execute(taken, http, Reread(body, receive), send)

    async def _take(self, key: str, who: Scope, http: Http, body: bytes) -> KeptOutcome | Hold:
        try:
            return await self._redrive.idempotent.take(
                key,
                _identity(http, body),
                org=who.org,
                domain=DOMAIN,
                user=who.user,
                ttl=self._ttl,
                lease_seconds=self._lease_seconds,
            )
        except KeyReusedError as error:
            hint = "use a new key for a new request"
            raise RefusedError(ProblemAnswer(422, "key_reused", self._told(error), hint)) from None
        except InProgressError as error:
            hint = "ask again after a while, with the same key"
            problem = ProblemAnswer(409, "in_progress", self._told(error), hint, error.retry_after)
            raise RefusedError(problem) from None
        except StoreError:
            raise RefusedError(_UNAVAILABLE) from None

    def _told(self, error: Exception) -> str:
        """It names the key, which somebody may have taken for a place to put a secret."""
        return parts_of(self._redrive).redactor.text(str(error))

    async def _execute(self, hold: Hold, http: Http, receive: Receive, send: Send) -> None:
        answer = Answer(hold, http, send, parts_of(self._redrive).limits.size)
        try:
            async with hold:
                await self._app(_without_shortcuts(http), receive, answer)
        except LeaseLostError:
            if answer.has_begun or not hold.lost:
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


def _without_shortcuts(http: Http) -> Http:
    extensions = http.get("extensions") or {}
    kept = {name: value for name, value in extensions.items() if name not in _SENT_ALONE}
    return {**http, "extensions": kept} if extensions else http


_QUOTE = 'send it as Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324", with a value of your own'
_MISSING = ProblemAnswer(400, "key_missing", "this request needs the header Idempotency-Key", _QUOTE)
_UNAVAILABLE = ProblemAnswer(
    503,
    "database",
    "the database cannot be used at the moment, and nothing was executed",
    "try again a little later, with the same key",
    retry_after=2.0,
)
