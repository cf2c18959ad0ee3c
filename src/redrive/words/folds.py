"""Folds: rows of a list that look the same to a reader, shown once with their number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from redrive.model.dead_letter import DeadLetterLine
from redrive.words.failure import headline
from redrive.words.state import letter_state

T = TypeVar("T")


@dataclass(frozen=True)
class Fold(Generic[T]):
    """Lists show `first`, and `others` when the reader opens the fold."""

    first: T
    others: Sequence[T]

    @property
    def rows(self) -> Sequence[T]:
        return self.first, *self.others

    @property
    def number(self) -> int:
        return 1 + len(self.others)


def fold(rows: Iterable[T], look: Callable[[T], Hashable]) -> list[Fold[T]]:
    """Fold rows for which `look` returns the same value. A fold has the place of its first row."""
    alike: dict[Hashable, list[T]] = {}
    for row in rows:
        alike.setdefault(look(row), []).append(row)
    return [Fold(first, others) for first, *others in alike.values()]


def letter_look(line: DeadLetterLine) -> Hashable:
    """Return what a reader sees of a dead letter in a list, except its id and its time."""
    title = headline(line.message, line.error_type, line.title)
    return title, letter_state(line), line.waits, line.workflow, line.step, line.attempts, line.assignee
