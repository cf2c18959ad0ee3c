"""The weather: every so often payments go down for a while, and come back by themselves."""

from __future__ import annotations

import asyncio
from random import Random

from redrive.demo.world import STOPPED, UP, World

SERVICE = "payments"
FIRST, BETWEEN, DURATION = 20.0, (60.0, 100.0), 14.0


async def change(world: World, random: Random) -> None:
    """For ever. While somebody wants it calm, or has broken something, nothing comes by itself."""
    await asyncio.sleep(FIRST)
    while True:
        if not world.is_calm and world.states()[SERVICE] == UP:
            world.break_(SERVICE, STOPPED, by="weather", seconds=DURATION)
        await asyncio.sleep(DURATION + random.uniform(*BETWEEN))
