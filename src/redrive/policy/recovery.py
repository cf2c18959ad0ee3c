"""Recoveries: when a dependency worked again, as others that used it have shown.

Two signs are taken. If nobody got through while something failed, and somebody did afterwards, the dependency
was down and came back. If others got through meanwhile, that says nothing about this one, which may fail by
what it is. But others that failed in the same way at the same time, and succeeded later, always count.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

from redrive.policy.what_if import FailedStep, Proof, Works

MAX_LOOKED_AT = 1_000
"""Recoveries that are looked at for one failure."""


class Recovery(NamedTuple):
    """Something that failed from `since` on, and had succeeded at `at`."""

    at: float
    since: float


class Retries(NamedTuple):
    """How many there were, and how many of them succeeded."""

    made: int = 0
    succeeded: int = 0


class Recoveries:
    """Take everything, then `settle`, then ask."""

    def __init__(self) -> None:
        self._successes: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._recoveries: defaultdict[tuple[str, str], list[Recovery]] = defaultdict(list)
        self._retries: defaultdict[tuple[str, str], Retries] = defaultdict(Retries)

    def succeeded(self, dependency: str, at: float) -> None:
        self._successes[dependency].append(at)

    def recovered(self, dependency: str, category: str, since: float, at: float) -> None:
        self._recoveries[dependency, category].append(Recovery(at, since))

    def retried(self, dependency: str, category: str, trouble: FailedStep) -> None:
        made, succeeded = self._retries[dependency, category]
        more = len(trouble.starts) - 1
        self._retries[dependency, category] = Retries(
            made + more, succeeded + (trouble.succeeded_at is not None)
        )

    def chance(self, dependency: str, category: str, attempts: int) -> float:
        """That one of so many further attempts succeeds, if they went as other retries have."""
        made, succeeded = self._retries.get((dependency, category), Retries())
        return 1.0 - (1.0 - succeeded / made) ** max(0, attempts) if made else 0.0

    def settle(self) -> None:
        for dependency, successes in self._successes.items():
            self._successes[dependency] = array("d", sorted(successes))
        for recoveries in self._recoveries.values():
            recoveries.sort()

    def works(self, dependency: str, category: str, began: float, last: float) -> Works | None:
        """When it worked again for others, after something has failed from `began` until `last`."""
        signs = (self._worked_again(dependency, began, last), self._recovered(dependency, category, last))
        return min((each for each in signs if each is not None), key=lambda each: each.since, default=None)

    def _worked_again(self, dependency: str, began: float, last: float) -> Works | None:
        successes = self._successes.get(dependency, array("d"))
        following = bisect_right(successes, last)
        if following == len(successes) or bisect_right(successes, began) < following:
            return None
        return Works(successes[following], Proof.WORKED_AGAIN)

    def _recovered(self, dependency: str, category: str, last: float) -> Works | None:
        recoveries = self._recoveries.get((dependency, category), [])
        place = bisect_right(recoveries, (last, last))
        for each in recoveries[place : place + MAX_LOOKED_AT]:
            if each.since <= last:
                return Works(each.at, Proof.OTHERS_RECOVERED)
        return None
