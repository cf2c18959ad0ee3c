"""State machines as data: the allowed transitions between states and their causes."""

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
    """All allowed transitions of one kind of object."""

    def __init__(self, noun: str, initial: State, transitions: Iterable[Transition[State]]) -> None:
        self.noun = noun
        self.initial = initial
        self.transitions = tuple(transitions)
        self._allowed = {(transition.before, transition.after): transition for transition in self.transitions}

    def allows(self, before: State, after: State) -> bool:
        return (before, after) in self._allowed

    def check(self, before: State, after: State) -> None:
        if not self.allows(before, after):
            allowed = ", ".join(sorted(self.successors(before))) or "no other state"
            raise TransitionError(
                f"a {self.noun} cannot change from {before} to {after}; "
                f"from {before} it can change to {allowed}"
            )

    def before(self, cause: str) -> list[State]:
        """Return the states in which the cause can occur."""
        return [transition.before for transition in self.transitions if transition.cause == cause]

    def successors(self, state: State) -> frozenset[State]:
        return frozenset(transition.after for transition in self.transitions if transition.before is state)


def moves(cause: str, before: Iterable[State], after: Iterable[State]) -> list[Transition[State]]:
    """Return every transition from one of `before` to one of `after`, for the same cause."""
    ends = tuple(after)
    return [Transition(start, end, cause) for start in before for end in ends]
