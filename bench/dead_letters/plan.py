"""The measurements, with their size and number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GROUPS = ("bury", "read", "growth", "replay")
DATABASES = ("postgresql", "sqlite")


@dataclass(frozen=True)
class Plan:
    """A plan of measurements.

    groups       the measurements to make
    seconds      the approximate duration of burying and draining
    repetitions  how often each measurement is made
    letters      the number of dead letters in a filled database
    failures     the number of failures among them
    replays      the number of letters to replay in bulk
    singles      the number of letters to replay singly
    times        how often each query is sent
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
