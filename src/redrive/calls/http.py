"""HTTP clients based on httpx2: guarded, authenticated, traced, with typed JSON responses.

Every request has a time limit, is retried by its policy if that is safe, sends `x-request-id` and its
idempotency key, and shares the breaker and retry budget of its host.

Inside a step of a run, a request makes one attempt by default, because the step is retried, and names the run
and the step in its headers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Self, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote
from uuid import uuid4

try:
    import httpx2
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the HTTP clients need httpx2; install it with: pip install 'redrive[http]'", name="httpx2"
    ) from error

from redrive.calls.attempt import Attempt
from redrive.calls.event import current_log_fields
from redrive.calls.exchange import Body, Exchange, encode_json
from redrive.calls.guard import CallOptions, Guard, names_of, reject_unknown
from redrive.calls.running_step import RunningStep, key_of_request, running_step
from redrive.calls.socket_deadline import limit_sockets
from redrive.duration import Seconds
from redrive.errors import InvalidValueError
from redrive.model.step import Effect
from redrive.policy.bounds import require_kind

R = TypeVar("R")

_PLAIN = " !#$&'()*+,/:;<=>?@[]^`{|}~"
"""Characters that a header has as they are; `quote` encodes the others, such as letters with accents."""

Token = str | Callable[[], str]


class ClientOptions(CallOptions, total=False):
    """Options of a client, in addition to those of its calls (see Guard).

    token        the bearer token; a function is called before every request, so tokens can rotate
    headers      sent with every request
    user_header  the header for `user_id`; default: "x-user-id"

    Without a `dependency`, each host and port has its own breaker and retry budget.
    """

    token: Token | None
    headers: Mapping[str, str]
    user_header: str


class RequestOptions(TypedDict, total=False):
    """Options of a request, in addition to method and path.

    json, params      the body and the query parameters
    idempotency_key   makes a POST or PATCH safe to retry
    operation         the name in logs; default: method and path
    user_id           the user on whose behalf the request is made
    """

    json: object
    params: Mapping[str, str | int | float | bool] | None
    headers: Mapping[str, str]
    idempotency_key: str | None
    operation: str
    timeout: Seconds
    user_id: str | int | None


class _Client:
    """Everything that both clients share, except sending."""

    def __init__(self, base_url: str, options: ClientOptions) -> None:
        reject_unknown(options, ClientOptions)
        url = _checked_url(base_url)
        self._options = options
        self._guard_options: dict[str, Any] = {"dependency": url.netloc.decode("ascii")}
        call_options = names_of(CallOptions)
        self._guard_options |= {name: value for name, value in options.items() if name in call_options}
        Guard(base_url, **self._guard_options)  # reject invalid options now, not at the first request
        self._base_url = base_url

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._base_url}>"

    def _exchange(
        self,
        method: str,
        path: str,
        returns: Callable[[Any], R] | None,
        create_if_absent: bool,
        options: RequestOptions,
    ) -> Exchange[R]:
        reject_unknown(options, RequestOptions)
        _reject_outside_path(path)
        json = options.get("json")
        exchange = Exchange(
            method=method.upper(),
            path=path,
            params=options.get("params"),
            headers=self._headers(options),
            content=None if json is None else encode_json(json),
            create_if_absent=create_if_absent,
            returns=returns,
        )
        step = running_step()
        return exchange if step is None else self._of_step(exchange, step)

    def _of_step(self, exchange: Exchange[R], step: RunningStep) -> Exchange[R]:
        """Name the run, and give a request with side effects the key of the step if it has no key."""
        own = {"x-run-id": step.run_id, "x-correlation-id": quote(step.correlation_id, safe=_PLAIN)}
        if exchange.effect is not Effect.NONE:
            request = exchange.method, self._base_url, exchange.path, exchange.params, exchange.content
            own["idempotency-key"] = quote(key_of_request(step, *request), safe=_PLAIN)
        return replace(exchange, headers=own | dict(exchange.headers))

    def _headers(self, options: RequestOptions) -> dict[str, str]:
        headers = {
            "accept": "application/json",
            "content-type": None if options.get("json") is None else "application/json",
            "x-request-id": _request_id(),
            "authorization": self._authorization(),
            "idempotency-key": options.get("idempotency_key"),
            self._options.get("user_header", "x-user-id").lower(): _text(options.get("user_id")),
            **_lower_names(self._options.get("headers", {})),
            **_lower_names(options.get("headers", {})),
        }
        return {name: _checked_header(name, value) for name, value in headers.items() if value is not None}

    def _authorization(self) -> str | None:
        token = self._options.get("token")
        return None if token is None else f"Bearer {token() if callable(token) else token}"

    def _guard(self, exchange: Exchange[R], options: RequestOptions) -> Guard:
        own = {name: value for name, value in options.items() if name in ("timeout", "idempotency_key")}
        fields = {"request_id": exchange.headers["x-request-id"]}
        given, step = self._guard_options | own, running_step()
        if step is not None:
            fields |= {"run_id": step.run_id, "correlation_id": step.correlation_id}
            given = given if "policy" in given else {"max_attempts": 1} | given
        operation = options.get("operation") or str(exchange)
        return Guard(operation, effect=exchange.effect, fields=fields, **given)


class HttpClient(_Client):
    """The sync client. Use it as a context manager, or close it.

    The timeout limits all socket operations of an attempt together: connecting, TLS, sending and receiving.
    Only the lookup of the host name has the limits of the system's resolver.
    """

    def __init__(self, base_url: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(base_url, options)
        self._http = httpx2.Client(base_url=base_url, timeout=None)
        limit_sockets(self._http)

    @overload
    def request(
        self, method: str, path: str, *, returns: Callable[[Any], R], **options: Unpack[RequestOptions]
    ) -> R: ...

    @overload
    def request(
        self,
        method: str,
        path: str,
        *,
        returns: Callable[[Any], R],
        create_if_absent: bool,
        **options: Unpack[RequestOptions],
    ) -> R | None: ...

    @overload
    def request(
        self, method: str, path: str, *, create_if_absent: bool = False, **options: Unpack[RequestOptions]
    ) -> Any: ...

    def request(
        self,
        method: str,
        path: str,
        *,
        returns: Callable[[Any], Any] | None = None,
        create_if_absent: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Send a request and return the decoded JSON, or the result of calling `returns` with it.

        With `create_if_absent`, status 409 is a success and returns None: the object already exists.
        """
        exchange = self._exchange(method, path, returns, create_if_absent, options)
        return self._guard(exchange, options).call(lambda attempt: self._send(exchange, attempt))

    def _send(self, exchange: Exchange[R], attempt: Attempt) -> R | None:
        body = Body(attempt)
        try:
            with _quietly(), self._http.stream(**_arguments(exchange, attempt)) as response:
                for chunk in response.iter_bytes():
                    body.add(chunk)
        except (httpx2.ReadTimeout, httpx2.WriteTimeout) as error:
            raise attempt.out_of_time() from error
        return exchange.answer(attempt, response.status_code, response.headers, body.all())

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncHttpClient(_Client):
    """The async client. Use it as an async context manager, or close it."""

    def __init__(self, base_url: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(base_url, options)
        self._http = httpx2.AsyncClient(base_url=base_url, timeout=None)

    @overload
    async def request(
        self, method: str, path: str, *, returns: Callable[[Any], R], **options: Unpack[RequestOptions]
    ) -> R: ...

    @overload
    async def request(
        self,
        method: str,
        path: str,
        *,
        returns: Callable[[Any], R],
        create_if_absent: bool,
        **options: Unpack[RequestOptions],
    ) -> R | None: ...

    @overload
    async def request(
        self, method: str, path: str, *, create_if_absent: bool = False, **options: Unpack[RequestOptions]
    ) -> Any: ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        returns: Callable[[Any], Any] | None = None,
        create_if_absent: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Send a request and return the decoded JSON, or the result of calling `returns` with it.

        With `create_if_absent`, status 409 is a success and returns None: the object already exists.
        """
        exchange = self._exchange(method, path, returns, create_if_absent, options)

        async def send(attempt: Attempt) -> Any:
            return await self._send(exchange, attempt)

        return await self._guard(exchange, options).call(send)

    async def _send(self, exchange: Exchange[R], attempt: Attempt) -> R | None:
        body = Body(attempt)
        with _quietly():
            async with self._http.stream(**_arguments(exchange, attempt)) as response:
                async for chunk in response.aiter_bytes():
                    body.add(chunk)
        return exchange.answer(attempt, response.status_code, response.headers, body.all())

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


_QUIET: ContextVar[bool] = ContextVar("redrive_http_quiet", default=False)


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the log of httpx2, which shows secrets in query parameters. Redrive's own log is redacted."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


logging.getLogger("httpx2").addFilter(lambda record: not _QUIET.get())


def _checked_url(base_url: str) -> httpx2.URL:
    require_kind("base_url", base_url, str)
    url = httpx2.URL(base_url)
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query:
        raise InvalidValueError(
            "base_url must be a complete URL such as https://host/path, without credentials or a query; "
            "pass a token as token=…"
        )
    return url


def _checked_header(name: str, value: object) -> str:
    """Reject an invalid header without showing its value: it may be a token with a trailing line break."""
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        raise InvalidValueError(f"the header {name!r} must be a string of printable ASCII characters")
    return value


def _reject_outside_path(path: str) -> None:
    """Reject a path outside the base URL: token, breaker and budget belong to the base URL."""
    url = httpx2.URL(path)
    if url.scheme or url.host or ".." in url.path.split("/"):
        raise InvalidValueError("path must be relative to base_url: not a complete URL, and without '..'")


def _arguments(exchange: Exchange[R], attempt: Attempt) -> dict[str, Any]:
    return {
        "method": exchange.method,
        "url": exchange.path,
        "params": exchange.params,
        "content": exchange.content,
        "headers": exchange.headers,
        "timeout": max(0.001, attempt.remaining()),
    }


def _request_id() -> str:
    """Return the id of the request being served, so that calls can be traced to it; otherwise a new id.

    The id often comes from outside; an id that cannot be sent as a header must not fail every call.
    """
    known = str(current_log_fields().get("request_id") or "")
    return known if known.isascii() and known.isprintable() and known else uuid4().hex


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    own = {name.lower(): value for name, value in headers.items()}
    if "idempotency-key" in own:
        raise InvalidValueError(
            "pass the key as idempotency_key=…, not as a header: only then is the request retried safely"
        )
    return own


def _text(identity: object) -> str | None:
    return None if identity is None else str(identity)
