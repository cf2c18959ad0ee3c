"""Work: whether it makes progress, and whether workers serve all of its queues and have its keys."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from shlex import quote
from typing import NamedTuple

from redrive.doctor.finding import MAX_NAMED, DoctorLimits, Finding, State, count, ok
from redrive.model.run import Place
from redrive.store.inspection import Expired, Overdue
from redrive.store.limits import QueueRow, WorkerRow
from redrive.store.run_listing import Depth
from redrive.words.number import names
from redrive.words.time import age

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
        return ok("leases", "none has expired without being taken over")
    number = sum(lease.number for lease in expired)
    who = names([lease.worker or "nobody" for lease in expired], MAX_NAMED)
    return Finding(
        "leases",
        State.BAD,
        f"{count(number, 'step')} leased to {who}; the oldest lease expired "
        f"{age(expired[0].oldest_seconds)} ago, and no worker has taken it over",
        "Their workers were killed or are frozen, and no other worker has continued them.",
        "Start a worker: it takes them over at once.",
        WORK,
    )


def judge_overdue(overdue: Overdue) -> Finding:
    if not overdue.number:
        return ok("overdue work", "no run is overdue")
    return Finding(
        "overdue work",
        State.BAD,
        f"{count(overdue.number, 'run')} overdue, the oldest for {age(overdue.oldest_seconds)}",
        "Retries and scheduled runs do not happen.",
        "Start a worker; if one is running, read its log.",
        WORK,
    )


def judge_workers(workers: Sequence[WorkerRow], limits: DoctorLimits) -> Iterator[Finding]:
    lost = [worker for worker in workers if worker.state != STOPPED and not _lives(worker, limits)]
    for worker in lost:
        yield Finding(
            "workers",
            State.WARN,
            f"{worker.id} ({worker.host}, process {worker.process}) is silent for "
            f"{age(worker.seconds_silent)}",
            "It was killed, or is frozen. Other workers take its runs over when its leases expire.",
            "Nothing, if you stopped it; otherwise start it again. The list forgets it after a day.",
            "redrive workers",
        )
    alive = [worker for worker in workers if _lives(worker, limits)]
    if alive:
        busy, slots = sum(worker.in_flight for worker in alive), sum(worker.concurrency for worker in alive)
        yield ok("workers", f"{count(len(alive), 'worker')} running, {busy:,} of {slots:,} slots in use")
    elif not lost:
        yield ok("workers", "none is running")


def judge_queues(
    depths: Sequence[Depth], queues: Sequence[QueueRow], workers: Sequence[WorkerRow], limits: DoctorLimits
) -> Iterator[Finding]:
    served = {name for each in workers if _lives(each, limits) for name in _served(each)}
    known = [_queue(name, depths, served) for name in sorted({each.queue for each in depths})]
    paused = [each for each in queues if each.paused_at is not None]
    for row in paused:
        yield _paused(row, next((each for each in known if each.name == row.name), None))
    troubled = [
        finding
        for each in known
        if each.name not in {row.name for row in paused}
        if (finding := _judged(each, limits))
    ]
    yield from troubled
    if not troubled and not paused:
        waiting = sum(each.ready + each.later for each in known)
        if not waiting:
            yield ok("queues", "nothing waits")
            return
        yield ok(
            "queues",
            f"{count(waiting, 'run')} waiting in {count(len(known), 'queue')}, none without a worker",
        )


def judge_encryption(sealed: Mapping[str, int], keys: Collection[str]) -> Finding:
    """`keys` are the ids of the configured keys."""
    strange = {key: number for key, number in sealed.items() if key not in keys}
    if strange:
        return Finding(
            "encryption",
            State.BAD,
            f"{count(sum(strange.values()), 'unfinished run')} cannot be decrypted here: encrypted with "
            f"the key {names(sorted(strange), MAX_NAMED)}, which is not configured",
            "Workers with these settings postpone these runs until they have the key.",
            "Add the key to encryption_keys, after the newest one.",
            "redrive config",
        )
    if not keys:
        return ok("encryption", "no key is configured: payloads are stored unencrypted")
    return ok("encryption", f"{count(len(keys), 'key')} configured, and unfinished runs can be decrypted")


def _paused(row: QueueRow, queue: _Queue | None) -> Finding:
    waiting = 0 if queue is None else queue.ready + queue.later
    by = row.paused_by or "an unknown user"
    why = f", because {row.reason}" if row.reason else ""
    return Finding(
        "queues",
        State.WARN,
        f"the queue {row.name} is paused by {by}{why}; {count(waiting, 'run')} waiting in it",
        "None of its runs start until an operator resumes it.",
        "Resume it when the reason is gone.",
        f"redrive queue resume {quote(row.name)}",
    )


def _judged(queue: _Queue, limits: DoctorLimits) -> Finding | None:
    if not queue.served and queue.ready:
        return Finding(
            "queues",
            State.BAD,
            f"{_ready(queue)} ready for {age(queue.oldest_seconds)}, and no worker",
            "No worker executes them.",
            "Start a worker that serves this queue.",
            f"{WORK} --queue {quote(queue.name)}",
        )
    if not queue.served and queue.later:
        return Finding(
            "queues",
            State.WARN,
            f"the queue {queue.name} has no worker; {count(queue.later, 'run')} in it will need one later",
            "They wait for their time, a breaker or a limit, and then for a worker.",
            "Start a worker that serves this queue.",
            f"{WORK} --queue {quote(queue.name)}",
        )
    if queue.ready and queue.oldest_seconds >= limits.backlog_seconds:
        return Finding(
            "queues",
            State.WARN,
            f"{_ready(queue)} ready, up to {age(queue.oldest_seconds)} old",
            "More work arrives than its workers finish, or they are busy with other queues.",
            "Start more workers, or raise worker_concurrency.",
            "redrive workers",
        )
    return None


def _ready(queue: _Queue) -> str:
    return f"the queue {queue.name} has {count(queue.ready, 'run')}"


def _queue(name: str, depths: Sequence[Depth], served: set[str]) -> _Queue:
    own = [each for each in depths if each.queue == name and each.place != Place.LEASED]
    ready = [each for each in own if each.place in _READY]
    ages = [each.now - each.oldest for each in ready if each.oldest is not None]
    waiting = sum(each.number for each in own) - sum(each.number for each in ready)
    return _Queue(name, sum(each.number for each in ready), waiting, max(ages, default=0.0), name in served)


def _lives(worker: WorkerRow, limits: DoctorLimits) -> bool:
    return worker.state != STOPPED and worker.seconds_silent <= limits.silent_seconds


def _served(worker: WorkerRow) -> list[str]:
    try:
        found = json.loads(worker.queues)
    except ValueError:
        return []
    return list(map(str, found)) if isinstance(found, list) else []
