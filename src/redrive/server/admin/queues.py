"""Queues: how much work they have, for how long, which workers serve them, and pausing them."""

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
"""The page points out work that has been ready for longer."""


class QueueLine(NamedTuple):
    """`shown` counts the work of all organizations if the caller may see it, otherwise of their own."""

    queue: QueueView
    shown: Depths
    workers: int
    query: str

    @property
    def differs(self) -> bool:
        """Whether other organizations have work in it."""
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
    """Show those that need somebody first: not served, paused, with old work."""
    visit = page.visit
    book = await visit.app.queue_book(org=visit.org, by=visit.principal.name)
    at_work = [worker for worker in await book.workers() if state_of(worker) == "running"]
    lines = [_line(queue, at_work) for queue in await book.list()]
    return await page.render("queues.html", place="queues", lines=sorted(lines, key=_urgency))


def _line(queue: QueueView, workers: Iterable[WorkerView]) -> QueueLine:
    serving = sum(queue.name in worker.queues for worker in workers)
    return QueueLine(queue, queue.overall or queue.own, serving, str(Term("queue", (queue.name,))))


def _urgency(line: QueueLine) -> tuple[bool, bool, bool, str]:
    return (not line.unserved, not line.queue.paused, not line.old, line.queue.name)
