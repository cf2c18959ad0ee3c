"""Which measurements there are, and how long and how often they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DATABASES = ("postgresql", "sqlite")
SECONDS = 0.25
"""Turns are short, so that neighbours have the same share of a machine that others use too."""
GROUPS = {
    "start": ("start", "start with a key"),
    "list": ("list", "list by a query"),
    "read": ("read one",),
    "door": ("who am I", "refused"),
}


@dataclass(frozen=True)
class Plan:
    """
    cases        what is asked
    connections  by how many clients at once, one measurement for each number
    seconds      how long a turn takes
    rounds       how many turns each server has
    letters      how many dead letters there are
    """

    cases: Sequence[str]
    connections: Sequence[int]
    seconds: float
    rounds: int
    letters: int


def planned(
    groups: Sequence[str],
    *,
    quick: bool,
    connections: Sequence[int] | None,
    rounds: int | None,
    letters: int | None,
) -> Plan:
    cases = [case for group in groups for case in GROUPS[group]]
    if quick:
        return Plan(cases, connections or (1, 64), SECONDS, rounds or 5, letters or 20_000)
    return Plan(cases, connections or (1, 16, 64), SECONDS, rounds or 25, letters or 100_000)
