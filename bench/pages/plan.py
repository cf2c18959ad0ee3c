"""What is measured, how often, and among how many dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GROUPS = ("calls", "pages")
DATABASES = ("postgresql", "sqlite")


@dataclass(frozen=True)
class Plan:
    """
    groups   the calls that pages make of the engine, the pages themselves, or both
    letters  how many dead letters there are
    times    how often each thing is asked for, after one that does not count
    """

    groups: Sequence[str]
    letters: int
    times: int


def planned(groups: Sequence[str], *, quick: bool, letters: int | None, times: int | None) -> Plan:
    return Plan(groups, letters or (20_000 if quick else 1_000_000), times or 20)
