"""A change as it is told to whoever watches an org: ids, actions and counts, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """`RESET`: too much was missed, everything shown is to be read again. `BEAT`: nothing has changed."""

    ENTRY = "entry"
    COUNTERS = "counters"
    RESET = "reset"
    BEAT = "beat"


class Counters(NamedTuple):
    """Dead letters by state, and the states of all breakers by name."""

    dead_letters: Mapping[str, int]
    breakers: Mapping[str, str]


class Change(NamedTuple):
    """`sequence` is where to go on after it. `subjects` are the first 100 of `number` ids."""

    kind: Kind
    sequence: int
    at: float
    action: str | None = None
    subjects: tuple[str, ...] = ()
    number: int = 0
    counters: Counters | None = None
