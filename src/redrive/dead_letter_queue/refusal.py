"""Messages for rejected operations on a failed task: the reason, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.dead_letter import DeadLetterState
from redrive.model.failed_task import FailedTaskRow
from redrive.model.statistics import STATUS_WORDS

_AT_REST = (DeadLetterState.OPEN, DeadLetterState.EXHAUSTED)


class Awaited(NamedTuple):
    """A dead letter that a task waits for. `task_id` is None if it belongs to another queue."""

    letter_id: str
    task_id: str | None
    state: DeadLetterState


def not_retried(row: FailedTaskRow, awaited: Sequence[Awaited], engine_reason: str) -> str:
    """Explain why a task can't be retried. `engine_reason` is used if the queue finds no other reason."""
    state = DeadLetterState(row.state)
    unresolved = [letter for letter in awaited if letter.state is not DeadLetterState.RESOLVED]
    if state is DeadLetterState.REPLAYING:
        why = "a retry is already in progress; wait for its outcome"
    elif state not in _AT_REST:
        why = f"it is {STATUS_WORDS[state]}; if it has failed again, add it again with enqueue"
    else:
        why = _waiting(row.task_id, unresolved[0]) if unresolved else engine_reason
    return f"the task {row.task_id!r} can't be retried: {why}"


def not_archived(row: FailedTaskRow) -> str:
    state = DeadLetterState(row.state)
    if state is DeadLetterState.REPLAYING:
        why = "a retry is in progress; wait for its outcome"
    elif state in _AT_REST:
        why = "it changed at the same time, so nothing was done; try again"
    else:
        why = f"it is {STATUS_WORDS[state]}; only pending and exhausted tasks can be archived"
    return f"the task {row.task_id!r} can't be archived: {why}"


def not_ended(task_id: str, timeout: float | None) -> str:
    within = "yet" if timeout is None else f"within {timeout:g} s"
    return (
        f"the task {task_id!r} has not finished {within}. The retry continues while the queue is open; check "
        f"it with dlq.get({task_id!r})"
    )


def _waiting(task_id: str, other: Awaited) -> str:
    status = STATUS_WORDS[other.state]
    if other.task_id is None:
        return (
            f"it waits for the dead letter {other.letter_id} of another queue, which is {status}. Resolve "
            f"that dead letter first, or remove the dependency with dlq.app.failures().unlink"
        )
    can_resolve = other.state in (*_AT_REST, DeadLetterState.REPLAYING)
    advice = "Resolve that task first, or remove" if can_resolve else "Remove"
    return (
        f"it waits for the task {other.task_id!r}, which is {status}. {advice} the dependency with "
        f"dlq.unlink({task_id!r}, {other.task_id!r})"
    )
