"""Judge the work: whether it makes progress, and whether workers serve every queue and have every key."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from shlex import quote
from typing import NamedTuple

from redrive.doctor.finding import DoctorLimits, Finding, bad, note, ok, warn
from redrive.model.finding import FindingCode
from redrive.model.run import Place
from redrive.store.inspection import Expired, Overdue, Overrun
from redrive.store.limits import QueueRow, WorkerRow
from redrive.store.run_listing import Depth

WORK = "redrive worker MODULE:ATTRIBUTE"
STOPPED = "stopped"
MAX_OVERRUNS = 5
_READY = (Place.READY, Place.ALONE)


class _Queue(NamedTuple):
    name: str
    ready: int
    later: int
    oldest_seconds: float
    served: bool


def judge_leases(expired: Sequence[Expired]) -> Finding:
    if not expired:
        return ok(FindingCode.LEASES_CURRENT)
    return bad(
        FindingCode.LEASES_EXPIRED,
        WORK,
        steps=sum(lease.number for lease in expired),
        workers=[lease.worker for lease in expired],
        oldest_seconds=expired[0].oldest_seconds,
    )


def judge_overruns(overruns: Sequence[Overrun]) -> Iterator[Finding]:
    for overrun in overruns[:MAX_OVERRUNS]:
        yield bad(
            FindingCode.TIMEOUT_EXCEEDED,
            f"redrive run view {overrun.run_id}",
            run_id=overrun.run_id,
            step=overrun.step,
            seconds=overrun.seconds,
            timeout_seconds=overrun.timeout,
            worker=overrun.worker,
        )
    if not overruns:
        yield ok(FindingCode.TIMEOUTS_KEPT)


def judge_overdue(overdue: Overdue) -> Finding:
    if not overdue.number:
        return ok(FindingCode.NOTHING_OVERDUE)
    return bad(FindingCode.WORK_OVERDUE, WORK, runs=overdue.number, oldest_seconds=overdue.oldest_seconds)


def judge_unknown_work(unknown: Mapping[str, int]) -> Iterator[Finding]:
    """Judge the runs that no worker knows, by what holds them."""
    for holder, number in unknown.items():
        yield bad(FindingCode.WORK_UNKNOWN, "redrive run list is:held", holder=holder, runs=number)
    if not unknown:
        yield ok(FindingCode.WORK_KNOWN)


def judge_workers(workers: Sequence[WorkerRow], limits: DoctorLimits) -> Iterator[Finding]:
    lost = [
        worker
        for worker in workers
        if worker.state != STOPPED and worker.seconds_silent > limits.silent_seconds
    ]
    for worker in lost:
        yield warn(
            FindingCode.WORKER_SILENT,
            "redrive workers",
            worker=worker.id,
            host=worker.host,
            process=worker.process,
            seconds=worker.seconds_silent,
        )
    blocked = [worker for worker in workers if worker not in lost and _is_blocked(worker)]
    for worker in blocked:
        step = worker.blocking_step
        yield bad(
            FindingCode.WORKER_BLOCKED,
            "redrive workers",
            worker=worker.id,
            host=worker.host,
            process=worker.process,
            seconds=worker.seconds_blocked or 0.0,
            blocking_step=None if step is None else step._asdict(),
        )
    alive = [worker for worker in workers if _is_alive(worker, limits)]
    if alive:
        yield ok(
            FindingCode.WORKERS_RUNNING,
            workers=len(alive),
            in_flight=sum(worker.in_flight for worker in alive),
            slots=sum(worker.concurrency for worker in alive),
        )
    elif not lost and not blocked:
        yield ok(FindingCode.NO_WORKER)


def judge_queues(
    depths: Sequence[Depth], queues: Sequence[QueueRow], workers: Sequence[WorkerRow], limits: DoctorLimits
) -> Iterator[Finding]:
    served = {name for worker in workers if _is_alive(worker, limits) for name in _queues_of(worker)}
    in_use = [_queue(name, depths, served) for name in sorted({depth.queue for depth in depths})]
    paused = [row for row in queues if row.paused_at is not None]
    for row in paused:
        yield _paused(row, next((queue for queue in in_use if queue.name == row.name), None))
    troubled = [
        finding
        for queue in in_use
        if queue.name not in {row.name for row in paused}
        if (finding := _judge_queue(queue, limits))
    ]
    yield from troubled
    if not troubled and not paused:
        waiting = sum(queue.ready + queue.later for queue in in_use)
        if not waiting:
            yield ok(FindingCode.NOTHING_WAITS)
            return
        yield ok(FindingCode.QUEUES_SERVED, runs=waiting, queues=len(in_use))


def judge_encryption(sealed: Mapping[str, int], keys: Collection[str]) -> Finding:
    """Compare the keys of unfinished runs with `keys`, the ids of the configured keys."""
    missing = {key: number for key, number in sealed.items() if key not in keys}
    if missing:
        return bad(
            FindingCode.KEY_MISSING,
            "redrive config",
            missing_keys=sorted(missing),
            runs=sum(missing.values()),
        )
    return ok(FindingCode.KEYS_COMPLETE, keys=len(keys)) if keys else note(FindingCode.NO_KEY)


def _paused(row: QueueRow, queue: _Queue | None) -> Finding:
    return warn(
        FindingCode.QUEUE_PAUSED,
        f"redrive queue resume {quote(row.name)}",
        queue=row.name,
        by=row.paused_by,
        reason=row.reason,
        runs=0 if queue is None else queue.ready + queue.later,
    )


def _judge_queue(queue: _Queue, limits: DoctorLimits) -> Finding | None:
    serve = f"{WORK} --queue {quote(queue.name)}"
    if not queue.served and queue.ready:
        return bad(
            FindingCode.QUEUE_WITHOUT_WORKER,
            serve,
            queue=queue.name,
            runs=queue.ready,
            oldest_seconds=queue.oldest_seconds,
        )
    if not queue.served and queue.later:
        return warn(FindingCode.QUEUE_WILL_NEED_WORKER, serve, queue=queue.name, runs=queue.later)
    if queue.ready and queue.oldest_seconds >= limits.backlog_seconds:
        return warn(
            FindingCode.QUEUE_BACKLOG,
            "redrive workers",
            queue=queue.name,
            runs=queue.ready,
            oldest_seconds=queue.oldest_seconds,
        )
    return None


def _queue(name: str, depths: Sequence[Depth], served: set[str]) -> _Queue:
    waiting = [depth for depth in depths if depth.queue == name and depth.place != Place.LEASED]
    ready = [depth for depth in waiting if depth.place in _READY]
    ages = [depth.now - depth.oldest for depth in ready if depth.oldest is not None]
    ready_number = sum(depth.number for depth in ready)
    later = sum(depth.number for depth in waiting) - ready_number
    return _Queue(name, ready_number, later, max(ages, default=0.0), name in served)


def _is_alive(worker: WorkerRow, limits: DoctorLimits) -> bool:
    is_silent = worker.seconds_silent > limits.silent_seconds
    return worker.state != STOPPED and not is_silent and not _is_blocked(worker)


def _is_blocked(worker: WorkerRow) -> bool:
    return worker.state != STOPPED and worker.blocked_at is not None


def _queues_of(worker: WorkerRow) -> list[str]:
    try:
        found = json.loads(worker.queues)
    except ValueError:
        return []
    return list(map(str, found)) if isinstance(found, list) else []
