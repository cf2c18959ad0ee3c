"""All faults by name, and which of them strike together."""

from __future__ import annotations

from collections.abc import Collection

from tests.crash.environment_faults import Cut, FullDisk, Server, Skew
from tests.crash.fault import Fault
from tests.crash.process_faults import AtPoint, Kill, Stop

FAULTS: dict[str, type[Fault]] = {
    "kill": Kill,
    "point": AtPoint,
    "stop": Stop,
    "proxy": Cut,
    "server": Server,
    "disk": FullDisk,
    "skew": Skew,
}
TOGETHER: dict[str, list[tuple[str, ...]]] = {
    "sqlite": [("kill",), ("point",), ("kill", "disk"), ("stop", "skew")],
    "postgresql": [("kill",), ("point",), ("stop", "proxy", "skew"), ("kill", "server")],
}
"""Sets of faults. The first of each database is the one that is measured: only kills."""


def sets_of(database: str, wanted: Collection[str] = tuple(FAULTS)) -> list[tuple[str, ...]]:
    """Return the sets of a database, reduced to the wanted faults."""
    sets = [tuple(fault for fault in each if fault in wanted) for each in TOGETHER[database]]
    return list(dict.fromkeys(each for each in sets if each))
