"""Messages about what cannot be done to a failed task: why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.dead_letter import DeadLetterState
from redrive.model.failed_task import FailedTaskRow
from redrive.model.statistics import STATUS_WORDS

_AT_REST = (DeadLetterState.OPEN, DeadLetterState.EXHAUSTED)


class Awaited(NamedTuple):
    """A dead letter that a task waits for. `task_id` is None when it belongs to another queue."""

    letter_id: str
    task_id: str | None
    state: DeadLetterState


def not_retried(row: FailedTaskRow, awaited: Sequence[Awaited], otherwise: str) -> str:
    """`otherwise` is the reason of the engine, for what the queue cannot see."""
    state = DeadLetterState(row.state)
    unresolved = [letter for letter in awaited if letter.state is not DeadLetterState.RESOLVED]
    if state is DeadLetterState.REPLAYING:
        why = "it is being retried already; wait for the outcome"
    elif state not in _AT_REST:
        why = f"it is {STATUS_WORDS[state]}; if it has failed again, put it in again with enqueue"
    else:
        why = _waiting(row.task_id, unresolved[0]) if unresolved else otherwise
    return f"the task {row.task_id!r} cannot be retried: {why}"


def not_archived(row: FailedTaskRow) -> str:
    state = DeadLetterState(row.state)
    if state is DeadLetterState.REPLAYING:
        why = "it is being retried; wait for the outcome"
    elif state in _AT_REST:
        why = "it has changed in this very moment; nothing was done, try again"
    else:
        why = f"it is {STATUS_WORDS[state]}; only tasks that are pending or exhausted can be archived"
    return f"the task {row.task_id!r} cannot be archived: {why}"


def not_ended(task_id: str, timeout: float | None) -> str:
    within = "yet" if timeout is None else f"within {timeout:g} s"
    return (
        f"the task {task_id!r} has not ended {within}; it is still being retried while the queue is open; "
        f"dlq.get({task_id!r}) tells what becomes of it"
    )


def _waiting(task_id: str, other: Awaited) -> str:
    status = STATUS_WORDS[other.state]
    if other.task_id is None:
        return (
            f"it waits for the dead letter {other.letter_id} of another queue, which is {status}; see "
            f"to that one first, or unlink them: dlq.app.failures().unlink"
        )
    first = "see to that one first, or " if other.state in (*_AT_REST, DeadLetterState.REPLAYING) else ""
    return (
        f"it waits for the task {other.task_id!r}, which is {status}; {first}let it wait no longer: "
        f"dlq.unlink({task_id!r}, {other.task_id!r})"
    )
