"""All points at which a process is made to die, each between two things that belong together."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tests.crash.trap import Point

PLACES = {
    "claim": ("before", "after"),
    "reclaim": ("before", "after"),
    "promote": ("after",),
    "renew": ("before", "after"),
    "effect": ("before", "after"),
    "complete": ("before", "after"),
    "advance": ("before", "inside", "after"),
    "reschedule": ("before", "inside", "after"),
    "stop": ("before",),
    "insert_dead_letter": ("before", "inside", "after"),
    "occupy": ("inside", "after"),
    "enqueue": ("before", "after"),
    "drain": ("before",),
}
_MOST = {"claim": 6, "effect": 9, "complete": 6, "enqueue": 25, "drain": 4, "renew": 2, "reclaim": 2}


def every_point(random: Random) -> list[Point]:
    """In an order of chance, and each at a time of chance."""
    points = [
        Point(name, moment, random.randint(1, _MOST.get(name, 3)))
        for name, moments in PLACES.items()
        for moment in moments
    ]
    random.shuffle(points)
    return points


class Points:
    """Those that wait for a process to reach them."""

    def __init__(self) -> None:
        self._waiting: list[Point] = []

    def add(self, points: Iterable[Point]) -> None:
        self._waiting.extend(points)

    def clear(self) -> None:
        self._waiting.clear()

    def count(self, role: str) -> int:
        return sum(point.role == role for point in self._waiting)

    def take(self, role: str) -> Point | None:
        """The next one for a process of this role."""
        for number, point in enumerate(self._waiting):
            if point.role == role:
                return self._waiting.pop(number)
        return None
