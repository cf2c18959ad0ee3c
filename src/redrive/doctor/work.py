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
    number = sum(each.number for each in expired)
    who = names([lease.worker or "nobody" for lease in expired], MAX_NAMED)
    return Finding(
        "leases",
        State.BAD,
        f"{count(number, 'step')} leased to {who}; the oldest lease expired "
        f"{age(expired[0].oldest_seconds)} ago, and nobody has taken it over",
        "Their workers were killed or are frozen, and no other one has gone on with them.",
        "Start a worker: it takes them over at once.",
        WORK,
    )


def judge_overdue(overdue: Overdue) -> Finding:
    if not overdue.number:
        return ok("overdue work", "nothing waits for longer than it should")
    return Finding(
        "overdue work",
        State.BAD,
        f"{count(overdue.number, 'run')} overdue, the oldest for {age(overdue.oldest_seconds)}",
        "Retries and scheduled runs do not happen.",
        "Start a worker; if one runs, see what it says in its log.",
        WORK,
    )


def judge_workers(workers: Sequence[WorkerRow], limits: DoctorLimits) -> Iterator[Finding]:
    lost = [each for each in workers if each.state != STOPPED and not _lives(each, limits)]
    for each in lost:
        yield Finding(
            "workers",
            State.WARN,
            f"{each.id} ({each.host}, process {each.process}) is silent for {age(each.seconds_silent)}",
            "It was killed, or is frozen. What it had begun is taken over by others when its leases expire.",
            "Nothing, if it was meant to go; otherwise start it again. It is forgotten after a day.",
            "redrive workers",
        )
    alive = [each for each in workers if _lives(each, limits)]
    if alive:
        busy, slots = sum(each.in_flight for each in alive), sum(each.concurrency for each in alive)
        yield ok("workers", f"{count(len(alive), 'worker')} at work, {busy:,} of {slots:,} slots in use")
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
            f"{count(sum(strange.values()), 'unfinished run')} cannot be opened here: encrypted with the key "
            f"{names(sorted(strange), MAX_NAMED)}, which is not configured",
            "Workers with these settings put such work aside until they have the key.",
            "Add the key to encryption_keys, behind the newest one.",
            "redrive config",
        )
    if not keys:
        return ok("encryption", "no key is configured: payloads are stored as they are")
    return ok("encryption", f"{count(len(keys), 'key')} configured, and unfinished runs can be opened")


def _paused(row: QueueRow, queue: _Queue | None) -> Finding:
    waiting = 0 if queue is None else queue.ready + queue.later
    by = row.paused_by or "somebody"
    why = f", because {row.reason}" if row.reason else ""
    return Finding(
        "queues",
        State.WARN,
        f"the queue {row.name} is paused by {by}{why}; {count(waiting, 'run')} waiting in it",
        "Nothing of it is begun until somebody resumes it.",
        "Resume it when the reason is gone.",
        f"redrive queue resume {quote(row.name)}",
    )


def _judged(queue: _Queue, limits: DoctorLimits) -> Finding | None:
    if not queue.served and queue.ready:
        return Finding(
            "queues",
            State.BAD,
            f"{_ready(queue)} ready for {age(queue.oldest_seconds)}, and no worker",
            "Nobody executes them.",
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
            "More comes than its workers get done, or they are busy with other queues.",
            "Start more workers, or let them do more at once (worker_concurrency).",
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
