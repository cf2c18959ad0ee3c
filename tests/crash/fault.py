"""A fault: it strikes again and again, at times of chance, and can say how often it has bitten."""

from __future__ import annotations

import asyncio
from random import Random

from tests.crash.process_group import ProcessGroup
from tests.crash.site import Site


class Fault:
    """`bites` names what must have been seen at the end, and how often it was."""

    databases: tuple[str, ...] = ("sqlite", "postgresql")
    pause = (0.1, 0.5)

    def __init__(self, site: Site, group: ProcessGroup, random: Random, lease: float) -> None:
        self.site = site
        self.group = group
        self.random = random
        self.lease = lease
        self.strikes = 0

    def prepare(self) -> None:
        """Before the first process is started."""

    async def strike(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        """Everything works again."""

    def bites(self) -> dict[str, int]:
        raise NotImplementedError

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(*self.pause))
            await self.strike()
