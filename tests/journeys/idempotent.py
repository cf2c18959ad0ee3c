"""A process that uses an idempotency key: python -m tests.journeys.idempotent <what> <sign>

stuck       executes the request, and never ends
duplicates  when the file <sign> exists, sends 25 duplicates at once, and prints their results
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.journeys.apps import file_exists
from tests.journeys.journal import note

from redrive.app import Redrive

KEY = "order-7"
REQUEST = {"order": 7}
LEASE = 2.0
NUMBER = 25


async def stuck(app: Redrive, sign: str) -> None:
    async def charge() -> None:
        note("charging")
        await asyncio.Event().wait()

    await app.idempotent.run(KEY, REQUEST, charge, lease_seconds=LEASE)


async def duplicates(app: Redrive, sign: str) -> None:
    await app.open()
    note("ready")
    await file_exists(sign)
    service = app.idempotent
    answers = await asyncio.gather(*(service.run(KEY, REQUEST, charge, wait=40.0) for _ in range(NUMBER)))
    print(json.dumps(answers), flush=True)


async def charge() -> dict[str, Any]:
    note("charging")
    await asyncio.sleep(0.05)  # long enough for all others to meet it
    note("charged")
    return {"charged": 7}


async def main(what: str, sign: str) -> None:
    async with Redrive() as app:
        await {"stuck": stuck, "duplicates": duplicates}[what](app, sign)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
