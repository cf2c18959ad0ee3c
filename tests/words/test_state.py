"""Labels of states."""

from __future__ import annotations

import pytest

from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure_group import GroupState
from redrive.model.replay import OperationState, ReplayState
from redrive.model.run import RunState
from redrive.model.step import StepState
from redrive.words.state import Tone, state_label


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("", [*RunState, *StepState, *DeadLetterState, *GroupState, *OperationState, *ReplayState]),
        ("breaker", list(BreakerState)),
    ],
)
def test_every_state_has_a_word(kind: str, states: list[str]) -> None:
    for state in states:
        assert state_label(state, kind).word != str(state)


def test_the_same_word_of_a_breaker_is_another_state() -> None:
    assert state_label("CLOSED", "breaker") == (Tone.GOOD, "Closed")
    assert state_label("half_open", "breaker") == (Tone.WARN, "Probing")


def test_an_unknown_state_is_its_own_word() -> None:
    assert state_label("SOME_NEW_STATE") == (Tone.CALM, "Some new state")
