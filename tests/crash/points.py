"""All points where the tests kill a process, each between two actions that belong together."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tests.crash.trap import Point

_WORKER: dict[str, tuple[str, ...]] = {
    "claim": ("before", "after"),
    "reclaim": ("before", "after"),
    "promote": ("after",),
    "renew": ("before", "after"),
    "effect": ("before", "after"),
    "complete": ("before", "after"),
    "advance": ("before", "after"),
    "reschedule": ("before", "inside", "after"),
    "stop": ("before",),
    "insert_dead_letter": ("before", "inside", "after"),
    "occupy": ("inside", "after"),
    "pick": ("before", "inside", "after"),
    "restart": ("before",),
    "mark_replaying": ("before", "inside"),
    "lock_due": ("before", "inside", "after"),
    "settle": ("before", "inside", "after"),
    "save": ("before", "inside", "after"),
    "drain": ("before",),
}
_REPLAYER: dict[str, tuple[str, ...]] = {
    "restart": ("before",),
    "mark_replaying": ("before", "inside", "after"),
    "save": ("before", "inside", "after"),
}
PLACES: dict[str, dict[str, tuple[str, ...]]] = {
    "worker": _WORKER,
    "enqueuer": {"enqueue": ("before", "after")},
    "replayer": _REPLAYER,
}
"""Statements and moments by role.

Workers start replays of operations (pick) and due redrives (lock_due), record their ends (settle) and advance
operations (save). A replayer starts single replays, and pauses, resumes and cancels operations.
"""

_MAX_COUNT = {
    "claim": 6,
    "effect": 9,
    "complete": 6,
    "enqueue": 25,
    "drain": 4,
    "renew": 2,
    "reclaim": 2,
    "pick": 2,
    "lock_due": 1,
    "save": 2,
}


def every_point(random: Random) -> list[Point]:
    """Return all points in random order, each at a random occurrence."""
    points = [
        Point(role, name, moment, random.randint(1, _MAX_COUNT.get(name, 3)))
        for role, places in PLACES.items()
        for name, moments in places.items()
        for moment in moments
    ]
    random.shuffle(points)
    return points


class Points:
    """The points that wait for a process to reach them."""

    def __init__(self) -> None:
        self._waiting: list[Point] = []

    def add(self, points: Iterable[Point]) -> None:
        self._waiting.extend(points)

    def clear(self) -> None:
        self._waiting.clear()

    def count(self, role: str) -> int:
        return sum(point.role == role for point in self._waiting)

    def take(self, role: str) -> Point | None:
        """Take the next point for a process of this role."""
        for number, point in enumerate(self._waiting):
            if point.role == role:
                return self._waiting.pop(number)
        return None
