"""State machines as data: which state may follow which, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from redrive.errors import TransitionError

State = TypeVar("State", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Transition(Generic[State]):
    before: State
    after: State
    cause: str


class TransitionTable(Generic[State]):
    """All allowed transitions of one kind of thing. What is not listed cannot happen."""

    def __init__(self, noun: str, initial: State, transitions: Iterable[Transition[State]]) -> None:
        self.noun = noun
        self.initial = initial
        self.transitions = tuple(transitions)
        self._allowed = {(each.before, each.after): each for each in self.transitions}

    def allows(self, before: State, after: State) -> bool:
        return (before, after) in self._allowed

    def check(self, before: State, after: State) -> None:
        if not self.allows(before, after):
            raise TransitionError(
                f"a {self.noun} cannot go from {before} to {after}; "
                f"from {before} it can go to {self._names(self.successors(before))}"
            )

    def before(self, cause: str) -> list[State]:
        """The states in which that can happen."""
        return [each.before for each in self.transitions if each.cause == cause]

    def successors(self, state: State) -> frozenset[State]:
        return frozenset(each.after for each in self.transitions if each.before is state)

    @staticmethod
    def _names(states: frozenset[State]) -> str:
        return ", ".join(sorted(states)) or "no other state"


def moves(cause: str, before: Iterable[State], after: Iterable[State]) -> list[Transition[State]]:
    """Every transition from one of `before` to one of `after`, for the same cause."""
    ends = tuple(after)
    return [Transition(start, end, cause) for start in before for end in ends]
