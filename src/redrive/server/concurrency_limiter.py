"""Limit expensive requests: one at a time per organization, few overall."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redrive.server.problem import ProblemError

MAX_COUNT = 2


class ConcurrencyLimiter:
    def __init__(self, most: int = MAX_COUNT) -> None:
        self._most = most
        self._under_way: set[str] = set()

    @contextmanager
    def taken(self, org: str) -> Iterator[None]:
        """A problem where it is somebody else's turn."""
        if org in self._under_way or len(self._under_way) >= self._most:
            raise ProblemError(
                429,
                "busy",
                "this takes a while, and is being done for somebody else at the moment",
                hint="wait for as long as Retry-After says",
                headers={"Retry-After": "5"},
            )
        self._under_way.add(org)
        try:
            yield
        finally:
            self._under_way.discard(org)
