"""The measurements, with their length and number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DATABASES = ("postgresql", "sqlite")
SECONDS = 0.25
"""Turns are short, so that neighbors get the same share of a busy machine."""
GROUPS = {
    "start": ("start", "start with a key"),
    "list": ("list", "list by a query"),
    "read": ("read one",),
    "authentication": ("who am I", "refused"),
}


@dataclass(frozen=True)
class Plan:
    """A plan of measurements.

    cases        the names of the requests
    connections  numbers of concurrent clients, with one measurement for each
    seconds      the length of a turn
    rounds       the number of turns of each server
    letters      the number of dead letters in the database
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
