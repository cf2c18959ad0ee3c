"""The guided path through a demo: see a failure, understand it, fix it, replay the group, watch it resolve.

What was done is read off the database and Acme's own files. Looking leaves no trace there: who opens a page
is noticed by the server that shows it, for as long as it runs.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from redrive.app import Redrive
from redrive.demo.acme.checkout import ZONES
from redrive.failures.service import Failures
from redrive.model.operation import ReplayOperation
from redrive.model.query import Order
from redrive.model.replay import OperationState

COUNTRY, ZONE = "NO", 3
KNOWN = {"CH": 1, "DE": 1, "AT": 1, "FR": 2, "IT": 2, "SE": 3}

SEE, UNDERSTAND, FIX, REPLAY, WATCH = range(5)
TITLES = ("See a failure", "Understand it", "Fix it", "Replay the group", "Watch it resolve")
CANARY, RATE = 3, 2
"""So few at first, and then so many a second: slow enough to be watched."""
SHORT = 12
NAMED = "seen "
"""How a server tells the demo of a page that was opened: with the number of the step."""


class ShippingZones:
    """Acme's table of shipping zones, which lacks a country: what an operator can repair.

    `pages` is the address of the admin pages, once it is known.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / ZONES
        self.pages = ""

    def prepare(self) -> None:
        lines = [f"{country} = {zone}\n" for country, zone in KNOWN.items()]
        self.file.write_text("# The shipping zone of each country.\n" + "".join(lines), encoding="utf-8")

    @property
    def is_fixed(self) -> bool:
        try:
            return COUNTRY in tomllib.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError):
            return False

    @property
    def line(self) -> str:
        return f"{COUNTRY} = {ZONE}"

    def add_zone(self) -> None:
        if not self.is_fixed:
            text = self.file.read_text(encoding="utf-8")
            self.file.write_text(f"{text.rstrip()}\n{self.line}\n", encoding="utf-8")


class PathFacts(NamedTuple):
    """
    group      the beginning of its fingerprint, as long as it takes to name it
    letter     its oldest dead letter
    operation  the newest bulk replay of it
    """

    group: str = ""
    fingerprint: str = ""
    title: str = ""
    letter: str = ""
    live: int = 0
    fixed: bool = False
    operation: str = ""
    started: bool = False
    resolved: bool = False

    def done(self, seen: frozenset[int]) -> tuple[bool, ...]:
        """A step counts as done when a later one is."""
        own = (SEE in seen, UNDERSTAND in seen, self.fixed, self.started or self.resolved, self.resolved)
        return tuple(any(own[number:]) for number in range(len(own)))


class GuidedPath:
    """How far an operator has come, read from the database and Acme's files."""

    def __init__(self, app: Redrive, zones: ShippingZones) -> None:
        self._app = app
        self._zones = zones

    async def facts(self) -> PathFacts:
        desk, fixed = await self._app.desk(by="demo"), self._zones.is_fixed
        groups = (await desk.groups.search("workflow:checkout step:label", size=20)).lines
        for group, letters in groups:
            if group.error_type.endswith("MissingZoneError"):
                operation = await _operation(desk, group.fingerprint)
                return PathFacts(
                    group=group.fingerprint.rpartition(":")[2][:SHORT],
                    fingerprint=group.fingerprint,
                    title=group.title,
                    letter=await _oldest(desk, group.fingerprint),
                    live=letters.live,
                    fixed=fixed,
                    operation="" if operation is None else operation.id,
                    started=operation is not None and operation.started_at is not None,
                    resolved=fixed and letters.live == 0,
                )
        return PathFacts(fixed=fixed)


def plan_command(group: str) -> str:
    return f"redrive replay plan --group {group} --canary {CANARY} --rate {RATE} --reason fixed"


async def _oldest(desk: Failures, fingerprint: str) -> str:
    """Not the newest, which would be another one before somebody has typed its id."""
    lines = (await desk.dead_letters.list(f"fp:{fingerprint}", size=1, order=Order.OLDEST)).lines
    return lines[0].id if lines else ""


async def _operation(desk: Failures, fingerprint: str) -> ReplayOperation | None:
    found = (await desk.operations.list(size=20)).operations
    ours = [
        each for each in found if fingerprint in each.selection and each.state != OperationState.CANCELLED
    ]
    return next((each for each in ours if each.started_at is not None), ours[0] if ours else None)
