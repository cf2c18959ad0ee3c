"""Limits per process: request rates, concurrent expensive requests and event streams, size of bodies."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redrive.policy.access import Principal
from redrive.policy.budget import Bucket, take
from redrive.policy.credential import findable_user
from redrive.server.problem import ProblemError
from redrive.server.proxies import Proxies
from redrive.settings import Settings

BURST_SECONDS = 2.0
"""The burst size, in seconds of the allowed rate."""
STRANGER_RATE, STRANGER_BURST = 20.0, 200.0
SIGN_IN_RATE, SIGN_IN_BURST = 0.2, 10.0
MAX_BUCKETS = 50_000
MAX_EXPENSIVE = 2
MAX_STREAMS_PER_CALLER = 10
WRITE_TIMEOUT_SECONDS = 30.0
"""How long a client may take to read an event."""
BODY_SECONDS = 30.0
"""How long a client may take to send the body of a request."""


class RequestLimits:
    """Requests per second, by token buckets: of each user, key, organization, address and sign-in name."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._proxies = Proxies(settings)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def admit(self, principal: Principal) -> None:
        settings = self._settings
        self._take(principal.whose, settings.server_key_rate)
        self._take(f"org:{principal.org}", settings.server_org_rate)

    def admit_stranger(self, request: Request, *, heavy: bool) -> None:
        """Count a request without credentials by its address, and attempts to sign in separately."""
        address = _neighbourhood(self._proxies.client_of(request))
        if heavy:
            self._take(f"sign-in:{address}", SIGN_IN_RATE, SIGN_IN_BURST)
        self._take(f"stranger:{address}", STRANGER_RATE, STRANGER_BURST)

    def admit_name(self, name: str) -> None:
        """Count an attempt to sign in under this name, from any address and in any spelling."""
        self._take(f"name:{findable_user(name)}", SIGN_IN_RATE, SIGN_IN_BURST)

    def admit_new_name(self, principal: Principal) -> None:
        """Refuse an organization that has tried too many names that others use, whatever the next name is."""
        self._look(f"names:{principal.org}", SIGN_IN_RATE, SIGN_IN_BURST)

    def count_taken_name(self, principal: Principal) -> None:
        self._take(f"names:{principal.org}", SIGN_IN_RATE, SIGN_IN_BURST)

    def _look(self, name: str, rate: float, burst: float) -> None:
        """Raise the problem of an empty bucket, and take nothing from any other."""
        _require_no_wait(take(self._buckets.get(name), self._monotonic(), rate, burst)[1], rate)

    def _take(self, name: str, rate: float, burst: float | None = None) -> None:
        most = max(1.0, rate * BURST_SECONDS) if burst is None else burst
        bucket, wait = take(self._buckets.pop(name, None), self._monotonic(), rate, most)
        self._buckets[name] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        _require_no_wait(wait, rate)


def _require_no_wait(wait: float, rate: float) -> None:
    if wait > 0.0:
        raise ProblemError(
            429,
            "rate_limited",
            f"more than {rate:g} requests per second",
            hint="retry after the time in Retry-After",
            headers={"Retry-After": str(max(1, math.ceil(wait)))},
        )


def _neighbourhood(address: str) -> str:
    """Return the /64 network of an IPv6 address: its owner has all addresses of it."""
    try:
        return f"{int(IPv6Address(address)) >> 64:x}::/64"
    except ValueError:
        return address


class ConcurrencyLimiter:
    """Limits expensive requests: one per organization, `maximum` overall."""

    def __init__(self, maximum: int = MAX_EXPENSIVE) -> None:
        self._maximum = maximum
        self._in_progress: set[str] = set()

    @contextmanager
    def slot(self, org: str) -> Iterator[None]:
        """Take a slot. Raises a problem (429) if none is free."""
        if org in self._in_progress or len(self._in_progress) >= self._maximum:
            raise ProblemError(
                429,
                "busy",
                "the server is busy with other requests of this kind",
                hint="retry after the time in Retry-After",
                headers={"Retry-After": "5"},
            )
        self._in_progress.add(org)
        try:
            yield
        finally:
            self._in_progress.discard(org)


class StreamLimits:
    """Limits open event streams: overall, per caller and per organization."""

    def __init__(
        self,
        maximum: int,
        per_caller: int = MAX_STREAMS_PER_CALLER,
        write_timeout: float = WRITE_TIMEOUT_SECONDS,
    ) -> None:
        self.write_timeout = write_timeout
        self._maximum = maximum
        self._per_caller = per_caller
        self._open: Counter[str] = Counter()

    @property
    def number(self) -> int:
        return self._open["all"]

    @contextmanager
    def slot(self, principal: Principal) -> Iterator[None]:
        """Take a slot. Raises a problem (429, 503) if none is free."""
        names = ("all", f"org:{principal.org}", principal.whose)
        self._check(principal, *names)
        self._open.update(names)
        try:
            yield
        finally:
            self._open.subtract(names)
            self._open = +self._open

    def _check(self, principal: Principal, whole: str, org: str, who: str) -> None:
        if self._open[who] >= self._per_caller:
            raise _too_many(
                f"{principal.name} has {self._per_caller} open event streams, the maximum per caller"
            )
        if not principal.at_home and self._open[org] >= max(1, self._maximum // 2):
            raise _too_many(f"the organization {principal.org!r} uses half of all event streams, its maximum")
        if self._open[whole] >= self._maximum:
            raise ProblemError(
                503,
                "no_stream_left",
                f"{self._maximum} event streams are open, the maximum of this server",
                hint="try again later, or raise server_streams",
                headers={"Retry-After": "15"},
            )


def _too_many(detail: str) -> ProblemError:
    hint = "close one of them"
    return ProblemError(429, "too_many_streams", detail, hint=hint, headers={"Retry-After": "15"})


class BodyLimits:
    """Middleware that limits the size of request bodies and the time to send them."""

    def __init__(self, app: ASGIApp, most: int, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        declared = int(length) if length.isascii() and length.isdecimal() and len(length) < 19 else 0
        self._check(declared)
        await self._app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        until = asyncio.get_running_loop().time() + self._seconds
        taken, whole = 0, False

        async def receiving() -> Message:
            nonlocal taken, whole
            if whole:  # the next message is that the client has disconnected, however late
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise ProblemError(
                    408,
                    "body_too_slow",
                    f"the request body did not arrive within {self._seconds:g} s",
                    hint="send the whole body without pauses",
                    headers={"Connection": "close"},
                ) from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            self._check(taken)
            return message

        return receiving

    def _check(self, size: int) -> None:
        if size > self._most:
            raise ProblemError(
                413,
                "body_too_large",
                f"the request body has more than {self._most:,} bytes",
                hint="store large data elsewhere and send a reference, or raise server_body_bytes",
                headers={"Connection": "close"},
            )
