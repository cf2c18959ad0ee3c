"""Which measurements there are, and how many entries they have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

GROUPS = ("ingest", "project", "pending")


@dataclass(frozen=True)
class Plan:
    """
    repetitions  how often each measurement is made
    seconds      how long a measurement takes, about
    pending      how many entries are pending for a consumer that is gone
    """

    repetitions: int
    seconds: float
    pending: int


_FULL = Plan(5, 4.0, 1_000_000)
_QUICK = Plan(1, 2.0, 100_000)


def planned(*, quick: bool, **given: Any) -> Plan:
    """A quick plan or a full one; what is given and not None replaces its part of it."""
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(_QUICK if quick else _FULL, **changes)
