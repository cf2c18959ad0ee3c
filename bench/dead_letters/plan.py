"""Which measurements there are, and how large and how often they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GROUPS = ("bury", "read", "growth", "replay")
DATABASES = ("postgresql", "sqlite")


@dataclass(frozen=True)
class Plan:
    """
    groups       which measurements are made
    seconds      how long burying and draining should take, about
    repetitions  how often each is made
    letters      how many dead letters a filled database has
    failures     of how many failures they are
    replays      how many are replayed at once
    singles      how many are replayed one by one
    times        how often a question is asked
    """

    groups: Sequence[str]
    seconds: float
    repetitions: int
    letters: int
    failures: int
    replays: int
    singles: int
    times: int


def planned(groups: Sequence[str], *, quick: bool, repetitions: int | None, letters: int | None) -> Plan:
    if quick:
        number = letters or 20_000
        return Plan(groups, 0.5, repetitions or 1, number, number // 200, 2_000, 200, 5)
    number = letters or 1_000_000
    return Plan(groups, 1.0, repetitions or 3, number, number // 200, 10_000, 500, 7)
