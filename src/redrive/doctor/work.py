"""Judge the work: whether it makes progress, and whether workers serve every queue and have every key."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from shlex import quote
from typing import NamedTuple

from redrive.doctor.finding import MAX_NAMED, DoctorLimits, Finding, State, count, note, ok
from redrive.model.run import Place
from redrive.store.inspection import Expired, Overdue, Overrun
from redrive.store.limits import QueueRow, WorkerRow
from redrive.store.run_listing import Depth
from redrive.words.number import names
from redrive.words.time import age
from redrive.words.timeline import unknown_work
from redrive.words.worker import blocked_text, overrun_text

WORK = "redrive worker MODULE:ATTRIBUTE"
STOPPED = "stopped"
_READY = (Place.READY, Place.ALONE)


class _Queue(NamedTuple):
    name: str
    ready: int
    later: int
    oldest_seconds: float
    served: bool


def judge_leases(expired: Sequence[Expired]) -> Finding:
    if not expired:
        return ok("leases", "no expired leases")
    number = sum(lease.number for lease in expired)
    workers = names([lease.worker or "an unknown worker" for lease in expired], MAX_NAMED)
    return Finding(
        "leases",
        State.BAD,
        f"{count(number, 'step')} leased to {workers}; the oldest lease expired "
        f"{age(expired[0].oldest_seconds)} ago, and no worker has taken it over",
        "The workers that hold these leases were killed or are frozen, and no other worker has continued.",
        "Start a worker. It takes the steps over immediately.",
        WORK,
    )


def judge_overruns(overruns: Sequence[Overrun]) -> Iterator[Finding]:
    for overrun in overruns[:MAX_NAMED]:
        yield Finding(
            "timeouts",
            State.BAD,
            f"run {overrun.run_id}: {overrun_text(overrun.step, overrun.seconds, overrun.timeout)}; "
            f"worker {overrun.worker} executes it",
            "The step blocks the event loop of its worker, so the worker's other runs wait for it.",
            'An async task must not block. Make it a sync task, or give it isolation="process".',
            f"redrive run view {overrun.run_id}",
        )
    if not overruns:
        yield ok("timeouts", "no step blocks a worker for longer than its timeout")


def judge_overdue(overdue: Overdue) -> Finding:
    if not overdue.number:
        return ok("overdue work", "no run is overdue")
    return Finding(
        "overdue work",
        State.BAD,
        f"{count(overdue.number, 'run')} overdue, the oldest for {age(overdue.oldest_seconds)}",
        "Retries and scheduled runs don't start.",
        "Start a worker. If one is running, check its log.",
        WORK,
    )


def judge_unknown_work(unknown: Mapping[str, int]) -> Iterator[Finding]:
    """Judge the runs that no worker knows, by what holds them."""
    for holder, number in unknown.items():
        yield Finding(
            "unknown work",
            State.BAD,
            f"{unknown_work(holder)}: {count(number, 'run')}",
            "These runs can't start. Their task was renamed or removed, or its worker is not running.",
            "Start a worker that has the task, or give the renamed task its old name as an alias.",
            "redrive run list is:held",
        )
    if not unknown:
        yield ok("unknown work", "workers know all ready work")


def judge_workers(workers: Sequence[WorkerRow], limits: DoctorLimits) -> Iterator[Finding]:
    lost = [
        worker
        for worker in workers
        if worker.state != STOPPED and worker.seconds_silent > limits.silent_seconds
    ]
    for worker in lost:
        yield Finding(
            "workers",
            State.WARN,
            f"{worker.id} ({worker.host}, process {worker.process}) has not reported for "
            f"{age(worker.seconds_silent)}",
            "It was killed or is frozen. Other workers take over its runs when its leases expire.",
            "Start it again, unless you stopped it. Redrive drops it from the list after a day.",
            "redrive workers",
        )
    blocked = [worker for worker in workers if worker not in lost and _is_blocked(worker)]
    for worker in blocked:
        yield Finding(
            "workers",
            State.BAD,
            f"{worker.id} ({worker.host}, process {worker.process}) is blocked: "
            f"{blocked_text(worker.seconds_blocked or 0.0, worker.blocking_step)}",
            "It executes nothing. Other workers take over its runs when its leases expire.",
            'Stop it (SIGTERM), and make the step a sync task or give it isolation="process".',
            "redrive workers",
        )
    alive = [worker for worker in workers if _is_alive(worker, limits)]
    if alive:
        busy, slots = sum(worker.in_flight for worker in alive), sum(worker.concurrency for worker in alive)
        yield ok("workers", f"{count(len(alive), 'worker')} running, {busy:,} of {slots:,} slots in use")
    elif not lost and not blocked:
        yield ok("workers", "no workers are running")


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
            yield ok("queues", "nothing is waiting")
            return
        yield ok(
            "queues",
            f"{count(waiting, 'run')} waiting in {count(len(in_use), 'queue')}, none without a worker",
        )


def judge_encryption(sealed: Mapping[str, int], keys: Collection[str]) -> Finding:
    """Compare the keys of unfinished runs with `keys`, the ids of the configured keys."""
    missing = {key: number for key, number in sealed.items() if key not in keys}
    if missing:
        return Finding(
            "encryption",
            State.BAD,
            f"{count(sum(missing.values()), 'unfinished run')} can't be decrypted here: encrypted with "
            f"the key {names(sorted(missing), MAX_NAMED)}, which is not configured",
            "Workers with these settings postpone these runs until they have the key.",
            "Add the key to encryption_keys, after the newest one.",
            "redrive config",
        )
    if not keys:
        return note("encryption", "no key is configured; payloads are stored unencrypted")
    return ok("encryption", f"{count(len(keys), 'key')} configured; all unfinished runs can be decrypted")


def _paused(row: QueueRow, queue: _Queue | None) -> Finding:
    waiting = 0 if queue is None else queue.ready + queue.later
    by = row.paused_by or "an unknown user"
    reason = f" (reason: {row.reason})" if row.reason else ""
    return Finding(
        "queues",
        State.WARN,
        f"{by} paused the queue {row.name}{reason}; {count(waiting, 'run')} waiting in it",
        "Its runs don't start until an operator resumes it.",
        "Resume it when the reason no longer applies.",
        f"redrive queue resume {quote(row.name)}",
    )


def _judge_queue(queue: _Queue, limits: DoctorLimits) -> Finding | None:
    if not queue.served and queue.ready:
        return Finding(
            "queues",
            State.BAD,
            f"{_ready(queue)} ready (oldest: {age(queue.oldest_seconds)}) and no worker",
            "These runs can't start.",
            "Start a worker that serves this queue.",
            f"{WORK} --queue {quote(queue.name)}",
        )
    if not queue.served and queue.later:
        return Finding(
            "queues",
            State.WARN,
            f"the queue {queue.name} has no worker; {count(queue.later, 'run')} in it will need one later",
            "The runs are waiting for their due time, a breaker or a limit. Then they will need a worker.",
            "Start a worker that serves this queue.",
            f"{WORK} --queue {quote(queue.name)}",
        )
    if queue.ready and queue.oldest_seconds >= limits.backlog_seconds:
        return Finding(
            "queues",
            State.WARN,
            f"{_ready(queue)} ready (oldest: {age(queue.oldest_seconds)})",
            "Work arrives faster than the workers finish it, or they are busy with other queues.",
            "Start more workers, or raise worker_concurrency.",
            "redrive workers",
        )
    return None


def _ready(queue: _Queue) -> str:
    return f"the queue {queue.name} has {count(queue.ready, 'run')}"


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
