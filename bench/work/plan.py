"""The measurements, their contenders, and their length and number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.work.contender import OURS, RAW, Entry
from bench.work.jobs import Kind
from bench.work.measurement import Order

GROUPS = {
    "enqueue": ("enqueue one", "enqueue one, 8 callers", "enqueue bulk"),
    "drain": ("drain, 1 process", "drain, 2 processes"),
    "retry": ("fail once",),
    "fail": ("fail for good",),
    "workflow": ("workflow",),
    "pick-up": ("pick-up",),
    "memory": ("memory",),
    "disk": ("disk",),
    "growth": (),
    "backlog": ("backlog",),
    "snapshot": ("snapshot",),
}
ON_REQUEST = ("backlog", "snapshot")
"""Groups that take long, and run only if they are named."""

DATABASES = ("postgresql", "sqlite", "redis")

_KINDS = {
    "fail once": Kind.FAIL_ONCE,
    "fail for good": Kind.FAIL,
    "workflow": Kind.WORKFLOW,
    "pick-up": Kind.PICK_UP,
    "memory": Kind.SLEEP,
}


@dataclass(frozen=True)
class Plan:
    """A plan of measurements.

    seconds      the approximate duration of a measurement
    repetitions  how often each measurement is made
    rows         the number of other rows in the database while growth is measured
    jobs         the number of jobs in a short backlog
    backlog      the number of jobs in a long backlog
    hold         how many seconds a session holds a snapshot
    """

    groups: Sequence[str]
    seconds: float
    repetitions: int
    rows: tuple[int, ...]
    jobs: int
    backlog: int
    hold: float

    @property
    def measurements(self) -> list[str]:
        return [what for group in self.groups for what in GROUPS[group]]

    def order(self, what: str, label: str, url: str) -> Order:
        order = Order(what, label, url, self.seconds)
        if what == "backlog":
            return replace(order, jobs=self.jobs, backlog=self.backlog)
        return replace(order, jobs=self.jobs, hold=self.hold) if what == "snapshot" else order


_FULL = Plan((), 1.0, 5, (100_000, 1_000_000), 60_000, 1_000_000, 600.0)
_QUICK = Plan((), 0.5, 1, (100_000,), 10_000, 100_000, 10.0)


def planned(groups: Sequence[str], *, quick: bool, **given: Any) -> Plan:
    """Return a quick or a full plan; arguments other than None replace parts of it."""
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(_QUICK if quick else _FULL, groups=groups, **changes)


def takes_part(entry: Entry, what: str) -> bool:
    if what == "enqueue bulk":
        return entry.bulk
    if what == "enqueue one, 8 callers":
        return entry.name in (OURS, RAW) and entry.database == "postgresql"
    if what == "drain, 2 processes" and entry.name == RAW:
        return False
    if what in ("disk", "backlog"):
        return entry.name == OURS
    if what == "snapshot":
        return entry.name == OURS and entry.database == "postgresql"
    return _KINDS.get(what, Kind.NOTHING) in entry.kinds
