"""What cannot be done to a failed task, in the words of those who know only the queue: why, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.failed_task import FailedTask

PENDING, RETRYING, EXHAUSTED, COMPLETED = "pending", "retrying", "exhausted", "completed"
_AT_REST = (PENDING, EXHAUSTED)
_CHANGED = "it has changed in this very moment; nothing was done, try again"


class Awaited(NamedTuple):
    """What a task waits for. `task_id` is None when that is a dead letter of another queue."""

    letter_id: str
    task_id: str | None
    status: str


def not_retried(item: FailedTask, awaited: Sequence[Awaited], otherwise: str) -> str:
    """`otherwise` is what the engine says; it is told when nothing is to be seen from here."""
    open_ones = [each for each in awaited if each.status != COMPLETED]
    if item.status == RETRYING:
        why = "it is being retried already; wait for the outcome"
    elif item.status not in _AT_REST:
        why = f"it is {item.status}; if it has failed again, put it in again with enqueue"
    else:
        why = _waiting(item.task_id, open_ones[0]) if open_ones else otherwise
    return f"the task {item.task_id!r} cannot be retried: {why}"


def not_archived(item: FailedTask) -> str:
    if item.status == RETRYING:
        why = "it is being retried; wait for the outcome"
    elif item.status in _AT_REST:
        why = _CHANGED
    else:
        why = f"it is {item.status}; only tasks that are pending or exhausted can be archived"
    return f"the task {item.task_id!r} cannot be archived: {why}"


def not_ended(task_id: str, timeout: float | None) -> str:
    within = "yet" if timeout is None else f"within {timeout:g} s"
    return (
        f"the task {task_id!r} has not ended {within}; it is still being retried while the queue is open; "
        f"dlq.get({task_id!r}) tells what becomes of it"
    )


def _waiting(task_id: str, other: Awaited) -> str:
    if other.task_id is None:
        return (
            f"it waits for the dead letter {other.letter_id} of another queue, which is {other.status}; see "
            f"to that one first, or unlink them: desk.dead_letters.unlink"
        )
    first = "see to that one first, or " if other.status in (*_AT_REST, RETRYING) else ""
    return (
        f"it waits for the task {other.task_id!r}, which is {other.status}; {first}let it wait no longer: "
        f"dlq.unlink({task_id!r}, {other.task_id!r})"
    )
