"""Fills a database with everything that pages show: dead letters, runs, attempts, audit, replays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from bench.dead_letters import fill_database
from bench.pages.records import breakers, chain, operations, queues, workers
from bench.pages.work import attempts, ended, idle, outcomes
from bench.work.statements import fetch

from redrive import Redrive
from redrive.parts import parts_of
from redrive.settings import Settings

LETTERS_OF_A_FAILURE = 500

Part = Callable[[Redrive, int], Awaitable[None]]
PARTS: tuple[Part, ...] = (outcomes, ended, idle, attempts, chain, breakers, queues, workers, operations)


async def fill(url: str, letters: int) -> float:
    """Fill the database and return the seconds that it took."""
    started = monotonic()
    await fill_database.fill(url, letters, letters // LETTERS_OF_A_FAILURE)
    await complete(url, letters)
    return monotonic() - started


async def complete(url: str, letters: int) -> None:
    """Add everything besides dead letters."""
    async with Redrive(settings=Settings(database_url=url)) as app:
        for part in PARTS:
            await part(app, letters)
        await parts_of(app).store.letter_writer.sum_up()  # as workers do
        await fetch(app, "ANALYZE", "VACUUM ANALYZE")
