"""Workers: which are running, since when, on what, and with which version of the code."""

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


class WorkerLine(NamedTuple):
    """`state` is "silent" for a running worker that has sent no heartbeat for a minute."""

    worker: WorkerView
    state: str


class Crew(NamedTuple):
    """All running workers together. `versions` counts them by version, the most frequent first."""

    number: int
    in_flight: int
    concurrency: int
    versions: Mapping[str, int]


@pages.get("/workers")
async def list_(page: OnPage) -> Response:
    """Show silent workers first, stopped ones last."""
    visit = page.visit
    book = await visit.app.queue_book(org=visit.org, by=visit.principal.name)
    lines = sorted([WorkerLine(worker, state_of(worker)) for worker in await book.workers()], key=_urgency)
    return await page.render("workers.html", place="workers", lines=lines, crew=crew(lines))


def state_of(worker: WorkerView) -> str:
    if worker.state != "stopped" and worker.seconds_silent > SILENT_SECONDS:
        return "silent"
    return worker.state


def crew(lines: Sequence[WorkerLine]) -> Crew:
    at_work = [line.worker for line in lines if line.state == "running"]
    versions = Counter(worker.code_version for worker in at_work)
    return Crew(
        len(at_work),
        sum(worker.in_flight for worker in at_work),
        sum(worker.concurrency for worker in at_work),
        dict(sorted(versions.items(), key=lambda item: (-item[1], item[0]))),
    )


def _urgency(line: WorkerLine) -> tuple[int, float, str]:
    known = line.state in _ORDER
    return (_ORDER.index(line.state) if known else len(_ORDER), -line.worker.started_at, line.worker.id)
