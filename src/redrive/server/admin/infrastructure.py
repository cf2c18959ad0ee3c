"""The pages of breakers, queues and workers, which all organizations share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from starlette.responses import Response

from redrive.engine.breakers import BreakerView
from redrive.engine.queues import Depths, QueueView, WorkerView
from redrive.model.breaker import BreakerState
from redrive.model.query import Term
from redrive.policy.description import describe_closing, describe_opening
from redrive.server.admin.page import OnPage, Pages
from redrive.words.worker import blocked_text

breaker_pages, queue_pages, worker_pages = Pages("breakers"), Pages("queues"), Pages("workers")

DURATIONS = (
    (300, "5 minutes"),
    (900, "15 minutes"),
    (3600, "1 hour"),
    (14_400, "4 hours"),
    (86_400, "1 day"),
)

_BREAKER_ORDER = (BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED)


class BreakerLine(NamedTuple):
    """`rate` is the share of failed calls in the breaker's window."""

    breaker: BreakerView
    rate: float | None
    opens: str
    closes: str

    @property
    def threshold(self) -> float:
        return self.breaker.policy.failure_rate


@breaker_pages.get("/breakers")
async def breakers(page: OnPage) -> Response:
    """Show open breakers first."""
    found = sorted(
        await page.visit.breakers.list(),
        key=lambda breaker: (_BREAKER_ORDER.index(breaker.state), breaker.name),
    )
    return await page.render(
        "breakers.html",
        place="breakers",
        lines=[_breaker_line(breaker) for breaker in found],
        durations=DURATIONS,
    )


def _breaker_line(breaker: BreakerView) -> BreakerLine:
    rate = breaker.failures / breaker.calls if breaker.calls else None
    return BreakerLine(breaker, rate, describe_opening(breaker.policy), describe_closing(breaker.policy))


# Queues

OLD_SECONDS = 300.0
"""The page marks a queue as behind if its oldest run has been ready for longer."""


class QueueLine(NamedTuple):
    """`shown` counts the runs of all organizations if the caller may see them, otherwise only their own."""

    queue: QueueView
    shown: Depths
    workers: int
    query: str

    @property
    def differs(self) -> bool:
        """Whether other organizations have runs in it."""
        return self.queue.overall is not None and self.queue.overall[:4] != self.queue.own[:4]

    @property
    def unserved(self) -> bool:
        waiting = self.shown.ready.number
        return not self.workers and waiting > 0 and not self.queue.paused

    @property
    def old(self) -> bool:
        age = self.shown.oldest_ready_seconds
        return age is not None and age > OLD_SECONDS


@queue_pages.get("/queues")
async def queues(page: OnPage) -> Response:
    """Show queues that need attention first: without a worker, paused, or with old runs."""
    workers = await page.visit.workers.list()
    running = [worker for worker in workers if worker.condition == "running"]
    lines = [_queue_line(queue, running) for queue in await page.visit.queues.list()]
    return await page.render("queues.html", place="queues", lines=sorted(lines, key=_queue_urgency))


def _queue_line(queue: QueueView, workers: Iterable[WorkerView]) -> QueueLine:
    serving = sum(queue.name in worker.queues for worker in workers)
    return QueueLine(queue, queue.overall or queue.own, serving, str(Term("queue", (queue.name,))))


def _queue_urgency(line: QueueLine) -> tuple[bool, bool, bool, str]:
    return (not line.unserved, not line.queue.paused, not line.old, line.queue.name)


# Workers

_WORKER_ORDER = ("silent", "blocked", "running", "stopping", "stopped")


class WorkerLine(NamedTuple):
    """`state` is "silent" for a running worker that has sent no heartbeat for a minute.

    It is "blocked" for a worker whose event loop does not answer; `trouble` then says which step blocks it.
    """

    worker: WorkerView
    state: str

    @property
    def trouble(self) -> str:
        seconds = self.worker.seconds_blocked
        return "" if seconds is None else blocked_text(seconds, self.worker.blocking_step)


class WorkerTotals(NamedTuple):
    """Totals of all running workers. `versions` counts workers by code version, the most frequent first."""

    number: int
    in_flight: int
    concurrency: int
    versions: Mapping[str, int]


@worker_pages.get("/workers")
async def workers(page: OnPage) -> Response:
    """Show silent workers first, stopped ones last."""
    found = await page.visit.workers.list()
    lines = sorted([WorkerLine(worker, worker.condition) for worker in found], key=_worker_urgency)
    return await page.render("workers.html", place="workers", lines=lines, totals=totals_of(lines))


def totals_of(lines: Sequence[WorkerLine]) -> WorkerTotals:
    running = [line.worker for line in lines if line.state == "running"]
    versions = Counter(worker.code_version for worker in running)
    return WorkerTotals(
        len(running),
        sum(worker.in_flight for worker in running),
        sum(worker.concurrency for worker in running),
        dict(sorted(versions.items(), key=lambda item: (-item[1], item[0]))),
    )


def _worker_urgency(line: WorkerLine) -> tuple[int, float, str]:
    known = line.state in _WORKER_ORDER
    return (
        _WORKER_ORDER.index(line.state) if known else len(_WORKER_ORDER),
        -line.worker.started_at,
        line.worker.id,
    )
