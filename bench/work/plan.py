"""Which measurements there are, who takes part in them, and how often and how long they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.work.contender import OURS, RAW, Entry
from bench.work.jobs import Kind

GROUPS = {
    "enqueue": ("enqueue one", "enqueue one, 8 callers", "enqueue bulk"),
    "drain": ("drain, 1 process", "drain, 2 processes"),
    "retry": ("fail once",),
    "fail": ("fail for good",),
    "workflow": ("workflow",),
    "pick-up": ("pick-up",),
    "memory": ("memory",),
    "growth": (),
}
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
    """
    seconds      how long a measurement should take, about
    repetitions  how often each is made
    sizes        how many rows of another kind the database holds while growth is measured
    """

    groups: Sequence[str]
    seconds: float
    repetitions: int
    sizes: tuple[int, ...]

    @property
    def measurements(self) -> list[str]:
        return [what for group in self.groups for what in GROUPS[group]]


def planned(groups: Sequence[str], *, quick: bool, repetitions: int | None) -> Plan:
    if quick:
        return Plan(groups, 0.5, repetitions or 1, (100_000,))
    return Plan(groups, 1.0, repetitions or 5, (100_000, 1_000_000))


def takes_part(entry: Entry, what: str) -> bool:
    if what == "enqueue bulk":
        return entry.bulk
    if what == "enqueue one, 8 callers":
        return entry.name in (OURS, RAW) and entry.database == "postgresql"
    if what == "drain, 2 processes" and entry.name == RAW:
        return False
    return _KINDS.get(what, Kind.NOTHING) in entry.kinds
