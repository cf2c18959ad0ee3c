"""Fills a database with dead letters and creates an API key; prints what clients need as JSON."""

from __future__ import annotations

import asyncio
import json
import sys

from bench.dead_letters.fill_database import fill
from bench.http.case import Known

from redrive import Redrive
from redrive.settings import Settings

LETTERS_OF_A_FAILURE = 200


async def prepare(url: str, letters: int) -> Known:
    await fill(url, letters, letters // LETTERS_OF_A_FAILURE)
    async with Redrive(settings=Settings(database_url=url)) as app:
        members, failures = app.members(by="bench"), app.failures(by="bench")
        key = await members.keys.create("bench", "ADMIN")
        [letter] = (await failures.list("is:open", size=1, order="oldest")).lines
        return Known(key.text, letter.id)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(prepare(sys.argv[1], int(sys.argv[2])))))
