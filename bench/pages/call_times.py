"""Times calls of the engine on a filled database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from bench.pages.calls import Books, Call, calls
from bench.pages.examples import Examples, examples_of
from bench.pages.times import Times, timed

from redrive import Redrive
from redrive.errors import StatementTimeoutError
from redrive.parts import parts_of
from redrive.settings import Settings


class CallTimes(NamedTuple):
    """The times of a call. `timed` is None if the engine refused it because it would take too long."""

    call: Call
    timed: Times | None


async def call_times(url: str, times: int, only: str = "") -> AsyncIterator[CallTimes]:
    async with Redrive(settings=Settings(database_url=url)) as app:
        await parts_of(app).enable_row_level_security()
        failures, runs = app.failures(by="ana"), app.runs(by="ana")
        books = Books(failures, runs, app.queues(by="ana"), app.workers(), app.breakers(by="ana"))
        for call in calls(await examples_of(app, failures, runs)):
            if only in call.name:
                yield CallTimes(call, await _timed(call, books, times if call.quick else 1))


async def known(url: str) -> Examples:
    async with Redrive(settings=Settings(database_url=url)) as app:
        return await examples_of(app, app.failures(by="ana"), app.runs(by="ana"))


async def _timed(call: Call, books: Books, times: int) -> Times | None:
    try:
        return await timed(lambda: call.make(books), times)
    except StatementTimeoutError:
        return None
