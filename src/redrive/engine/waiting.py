"""Waiting for an event or for time, whichever comes first, by the injected clock."""

from __future__ import annotations

import asyncio

from redrive.clock import Clock


async def wait_for(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """True when the event was set, False when the time has passed."""
    if event.is_set():
        return True
    told = asyncio.ensure_future(event.wait())
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({told, timer}, return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        told.cancel()
        timer.cancel()
