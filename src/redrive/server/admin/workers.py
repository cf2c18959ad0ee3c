"""Workers: who works, since when, on what, and with which version of the code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.responses import Response

from redrive.engine.queue_queries import WorkerView
from redrive.failures.verdicts import SILENT_SECONDS
from redrive.server.admin.page import OnPage, Pages

pages = Pages("workers")

_ORDER = ("silent", "running", "stopping", "stopped")


class Line(NamedTuple):
    """`state` is silent for one that should be at work, and has said nothing for a minute."""

    worker: WorkerView
    state: str


class Crew(NamedTuple):
    """Those that are at work, together. `versions`: how many of them have which, the most frequent first."""

    number: int
    in_flight: int
    concurrency: int
    versions: Mapping[str, int]


@pages.get("/workers")
async def list_(page: OnPage) -> Response:
    """Those that have fallen silent first, those that have stopped last."""
    visit = page.visit
    book = await visit.app.queue_book(org=visit.org, by=visit.principal.name)
    lines = sorted([Line(each, state_of(each)) for each in await book.workers()], key=_urgency)
    return await page.render("workers.html", place="workers", lines=lines, crew=crew(lines))


def state_of(worker: WorkerView) -> str:
    if worker.state != "stopped" and worker.seconds_silent > SILENT_SECONDS:
        return "silent"
    return worker.state


def crew(lines: Sequence[Line]) -> Crew:
    at_work = [line.worker for line in lines if line.state == "running"]
    versions = Counter(each.code_version for each in at_work)
    return Crew(
        len(at_work),
        sum(each.in_flight for each in at_work),
        sum(each.concurrency for each in at_work),
        dict(sorted(versions.items(), key=lambda each: (-each[1], each[0]))),
    )


def _urgency(line: Line) -> tuple[int, float, str]:
    known = line.state in _ORDER
    return (_ORDER.index(line.state) if known else len(_ORDER), -line.worker.started_at, line.worker.id)
