"""Limits of what callers may ask: requests a second by token buckets, and expensive requests at once.

They are counted in the memory of this process.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address

from starlette.requests import Request

from redrive.policy.access import Principal
from redrive.policy.budget import Bucket, take
from redrive.policy.credential import findable_user
from redrive.server.problem import ProblemError
from redrive.server.proxies import Proxies
from redrive.settings import Settings

BURST = 2.0
"""Seconds' worth of requests that may come at once."""
STRANGER_RATE, STRANGER_BURST = 20.0, 200.0
SIGN_IN_RATE, SIGN_IN_BURST = 0.2, 10.0
MAX_BUCKETS = 50_000
MAX_EXPENSIVE = 2


class RequestLimits:
    def __init__(self, settings: Settings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._proxies = Proxies(settings)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def admit(self, principal: Principal) -> None:
        settings = self._settings
        self._take(f"{principal.kind}:{principal.id}", settings.server_key_rate)
        self._take(f"org:{principal.org}", settings.server_org_rate)

    def admit_stranger(self, request: Request, *, heavy: bool) -> None:
        """By the address they come from; trying passwords is counted apart."""
        address = _neighbourhood(self._proxies.client_of(request))
        if heavy:
            self._take(f"sign-in:{address}", SIGN_IN_RATE, SIGN_IN_BURST)
        self._take(f"stranger:{address}", STRANGER_RATE, STRANGER_BURST)

    def admit_name(self, name: str) -> None:
        """Somebody tries to sign in under this name, from wherever and however it is written."""
        self._take(f"name:{findable_user(name)}", SIGN_IN_RATE, SIGN_IN_BURST)

    def _take(self, name: str, rate: float, burst: float | None = None) -> None:
        most = max(1.0, rate * BURST) if burst is None else burst
        bucket, wait = take(self._buckets.pop(name, None), self._monotonic(), rate, most)
        self._buckets[name] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if wait > 0.0:
            raise _too_many(wait, rate)


def _neighbourhood(address: str) -> str:
    """Whoever has one address of IPv6 has all those that begin with the same half of it."""
    try:
        return f"{int(IPv6Address(address)) >> 64:x}::/64"
    except ValueError:
        return address


def _too_many(wait: float, rate: float) -> ProblemError:
    return ProblemError(
        429,
        "rate_limited",
        f"more than {rate:g} requests a second",
        hint="wait for as long as Retry-After says",
        headers={"Retry-After": str(max(1, math.ceil(wait)))},
    )


class ConcurrencyLimiter:
    """Expensive requests: one at a time per organization, few overall."""

    def __init__(self, maximum: int = MAX_EXPENSIVE) -> None:
        self._maximum = maximum
        self._in_progress: set[str] = set()

    @contextmanager
    def slot(self, org: str) -> Iterator[None]:
        """Raises a problem (429) where no slot is free."""
        if org in self._in_progress or len(self._in_progress) >= self._maximum:
            raise ProblemError(
                429,
                "busy",
                "this takes a while, and is being done for somebody else at the moment",
                hint="wait for as long as Retry-After says",
                headers={"Retry-After": "5"},
            )
        self._in_progress.add(org)
        try:
            yield
        finally:
            self._in_progress.discard(org)
