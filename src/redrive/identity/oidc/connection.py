"""HTTP requests to an OpenID provider: limited in time and size, without redirects, and cached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from ssl import SSLContext
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.httpx_client import AsyncOAuth2Client

from redrive.clock import Clock
from redrive.identity.oidc import ProviderUnavailableError
from redrive.settings.addresses import is_loopback

T = TypeVar("T")

EXCHANGE_SECONDS = 10.0
"""Maximum time from resolving the host to the last byte of the response."""
MAX_ANSWER_BYTES = 524_288
CACHE_SECONDS = 600.0
REFRESH_PAUSE_SECONDS = 60.0
"""Minimum pause between two fetches of the keys that tokens with unknown keys trigger."""
FAILURE_SECONDS = 5.0
"""For this time after a failed fetch, sign-ins fail immediately instead of waiting for another fetch."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "redrive"}


class OpenIdClient(NamedTuple):
    """This installation as registered at the provider. `scopes` are separated by spaces."""

    id: str
    secret: str | None
    scopes: str

    def __repr__(self) -> str:
        return f"OpenIdClient({self.id!r}, '…', {self.scopes!r})"


class AnswerError(httpx2.TransportError):
    """The provider sent an unusable response."""


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                raise AnswerError(f"the response is longer than {MAX_ANSWER_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class ProviderConnection:
    """Sends requests to one provider. Providers need HTTPS, except on this machine."""

    def __init__(self, issuer: str, client: OpenIdClient) -> None:
        self._client = client
        self._local = issuer.startswith("http:")

    def is_safe(self, address: str) -> bool:
        """Return whether Redrive may call an address that the provider publishes, or send browsers there."""
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            return False
        if not address.isascii() or not address.isprintable() or set(address) & {" ", "\\"}:
            return False
        if not host or "@" in parts.netloc or parts.fragment:
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and self._local and is_loopback(host))

    def oauth_client(self) -> Any:
        """Create an `AsyncOAuth2Client`. It stores the tokens that it fetches, so use one per sign-in."""
        return AsyncOAuth2Client(
            self._client.id,
            scope=self._client.scopes,
            code_challenge_method="S256",
            headers=_HEADERS,
            timeout=EXCHANGE_SECONDS,
            follow_redirects=False,
            trust_env=not self._local,
            verify=self._tls,
            event_hooks={"response": [_limit]},
        )

    @cached_property
    def _tls(self) -> SSLContext:
        return httpx2.create_ssl_context()

    @asynccontextmanager
    async def exchange(self, step: str) -> AsyncIterator[Any]:
        """Yield an OAuth client for one exchange. Raise ProviderUnavailableError if the exchange fails."""
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS), self.oauth_client() as client:
                yield client
        except TimeoutError:
            reason = f"no complete response within {EXCHANGE_SECONDS:g} s"
            raise ProviderUnavailableError(step, reason) from None
        except AnswerError as error:
            raise ProviderUnavailableError(step, str(error)) from None
        # Authlib reads numbers such as `expires_in` without checking their type.
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, ArithmeticError) as error:
            raise ProviderUnavailableError(step, type(error).__name__) from None

    async def fetch(self, step: str, address: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Fetch the JSON object at an address."""
        async with self.exchange(step) as client:
            response = await client.get(address, headers=headers, auth=None)
            if response.status_code != 200:
                raise AnswerError(f"status {response.status_code}")
            return json_object(response)


def json_object(response: httpx2.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except (ValueError, RecursionError):
        raise AnswerError(f"status {response.status_code}, and not JSON") from None
    if not isinstance(document, dict):
        raise AnswerError(f"status {response.status_code}, and not a JSON object")
    return document


async def _limit(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AnswerError("the response is compressed, although the request did not allow it")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _LimitedStream(response.stream)


class FetchCache(Generic[T]):
    """Caches a document that the provider publishes. Concurrent callers share one fetch."""

    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._failure: ProviderUnavailableError | None = None
        self._valid_until = float("-inf")
        self._refreshable_at = float("-inf")

    async def get(self) -> T:
        async with self._lock:
            return await self._current()

    async def refresh(self) -> T:
        """Fetch the document before it expires, at most once per `REFRESH_PAUSE_SECONDS`."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._value is not None and now >= self._refreshable_at:
                self._refreshable_at, self._valid_until = now + REFRESH_PAUSE_SECONDS, now
            return await self._current()

    async def _current(self) -> T:
        if self._clock.monotonic() < self._valid_until:
            if self._failure is not None:
                raise self._failure
            if self._value is not None:
                return self._value
        try:
            self._value, self._failure = await self._fetch(), None
        except ProviderUnavailableError as error:
            self._value, self._failure = None, error
            self._valid_until = self._clock.monotonic() + FAILURE_SECONDS
            raise
        self._valid_until = self._clock.monotonic() + CACHE_SECONDS
        return self._value
