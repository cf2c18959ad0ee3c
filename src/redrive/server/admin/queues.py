"""Queues: what lies in them, for how long, who works on them, and pausing them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from starlette.responses import Response

from redrive.engine.queue_queries import Depths, QueueView, WorkerView
from redrive.model.query import Term
from redrive.server.admin.page import OnPage, Pages
from redrive.server.admin.workers import state_of

pages = Pages("queues")

OLD_SECONDS = 300.0
"""Work that is ready for longer is pointed out."""


class Line(NamedTuple):
    """`shown` is what all have where that is told, otherwise one's own. So many `workers` serve it."""

    queue: QueueView
    shown: Depths
    workers: int
    query: str

    @property
    def differs(self) -> bool:
        """Others have something in it, too."""
        return self.queue.overall is not None and self.queue.overall[:4] != self.queue.own[:4]

    @property
    def unserved(self) -> bool:
        waiting = self.shown.ready.number
        return not self.workers and waiting > 0 and not self.queue.paused

    @property
    def old(self) -> bool:
        age = self.shown.oldest_ready_seconds
        return age is not None and age > OLD_SECONDS


@pages.get("/queues")
async def list_(page: OnPage) -> Response:
    """Those that need somebody first: not served, paused, with old work."""
    visit = page.visit
    book = await visit.app.queue_book(org=visit.org, by=visit.principal.name)
    at_work = [each for each in await book.workers() if state_of(each) == "running"]
    lines = [_line(each, at_work) for each in await book.list()]
    return await page.render("queues.html", place="queues", lines=sorted(lines, key=_urgency))


def _line(queue: QueueView, workers: Iterable[WorkerView]) -> Line:
    serving = sum(queue.name in each.queues for each in workers)
    return Line(queue, queue.overall or queue.own, serving, str(Term("queue", (queue.name,))))


def _urgency(line: Line) -> tuple[bool, bool, bool, str]:
    return (not line.unserved, not line.queue.paused, not line.old, line.queue.name)
