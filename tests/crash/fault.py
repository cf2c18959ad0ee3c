"""A fault: it strikes repeatedly at random times, and counts how often it took effect."""

from __future__ import annotations

import asyncio
from random import Random

from tests.crash.process_group import ProcessGroup
from tests.crash.site import Site


class Fault:
    """A fault. `occurrences` counts its effects by name; each must have occurred by the end."""

    databases: tuple[str, ...] = ("sqlite", "postgresql")
    pause = (0.1, 0.5)

    def __init__(self, site: Site, group: ProcessGroup, random: Random, lease: float) -> None:
        self.site = site
        self.group = group
        self.random = random
        self.lease = lease
        self.strikes = 0

    def prepare(self) -> None:
        """Prepare, before the first process starts."""

    async def strike(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        """Repair everything."""

    def occurrences(self) -> dict[str, int]:
        raise NotImplementedError

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(*self.pause))
            await self.strike()
