"""Labels of states."""

from __future__ import annotations

import pytest
from tests.words.glossary import states_by_status

from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import DeadLetterLine, DeadLetterState
from redrive.model.decision import Reason
from redrive.model.failure import Category, ErrorClass
from redrive.model.failure_group import GroupState
from redrive.model.replay import OperationState, ReplayState
from redrive.model.run import RunState
from redrive.model.step import StepState
from redrive.words.state import LABELS, Tone, letter_state, state_label, status


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


def test_an_open_dead_letter_may_be_due_for_a_redrive() -> None:
    line = DeadLetterLine(
        id="l",
        run_id="r",
        step="s",
        task="t",
        workflow="w",
        category=Category.NETWORK,
        error_class=ErrorClass.RETRYABLE,
        error_type="E",
        public_code="c",
        reason=Reason.ATTEMPTS_SPENT,
        fingerprint="f",
        title="t",
        correlation_id="r",
        message="m",
    )
    assert letter_state(line) == "OPEN"
    for changes in ({"next_redrive_at": 1.0}, {"waits": True}):
        assert status(letter_state(line.replace(**changes))) == "redrive due"
        assert letter_state(line.replace(state=DeadLetterState.EXHAUSTED, **changes)) == "EXHAUSTED"


def test_the_glossary_has_the_word_of_every_state_once() -> None:
    rows = states_by_status()
    assert set(rows) == {label.word.lower() for label in LABELS.values()}
    kinds = (RunState, StepState, DeadLetterState, GroupState, OperationState, ReplayState)
    for state in {state for kind in kinds for state in kind}:
        assert state in rows[status(state)]
    for breaker_state in BreakerState:
        assert breaker_state in rows[status(breaker_state, "breaker")]
