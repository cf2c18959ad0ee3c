"""The measurements, their number, and the number of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GROUPS = ("calls", "pages")
DATABASES = ("postgresql", "sqlite")


@dataclass(frozen=True)
class Plan:
    """A plan of measurements.

    groups   the engine's calls that pages make, the pages themselves, or both
    letters  the number of dead letters in the database
    times    how often each page or call is requested, after a first request that does not count
    """

    groups: Sequence[str]
    letters: int
    times: int


def planned(groups: Sequence[str], *, quick: bool, letters: int | None, times: int | None) -> Plan:
    return Plan(groups, letters or (20_000 if quick else 1_000_000), times or 20)
