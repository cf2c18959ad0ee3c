"""The transition tables are the glossary's states as data; other transitions cannot happen (I10)."""

from enum import StrEnum
from itertools import pairwise
from typing import Any

import pytest
from tests.cases import loop_over

from redrive.errors import InvalidValueError, TransitionError
from redrive.model.alias import dead_letter_state, step_state
from redrive.model.breaker import BREAKER_TRANSITIONS
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS, DeadLetterState
from redrive.model.failure_group import GROUP_TRANSITIONS
from redrive.model.replay import OPERATION_TRANSITIONS, REPLAY_TRANSITIONS
from redrive.model.run import RUN_TRANSITIONS, RunState
from redrive.model.step import STEP_TRANSITIONS, StepState
from redrive.model.transition import TransitionTable

TABLES = [
    RUN_TRANSITIONS,
    STEP_TRANSITIONS,
    DEAD_LETTER_TRANSITIONS,
    BREAKER_TRANSITIONS,
    GROUP_TRANSITIONS,
    REPLAY_TRANSITIONS,
    OPERATION_TRANSITIONS,
]

PROMISED: list[tuple[TransitionTable[Any], str]] = [
    (RUN_TRANSITIONS, "PENDING → RUNNING → SUCCESS | FAILED | PARTIAL | DLQ_PENDING"),
    (STEP_TRANSITIONS, "PENDING → RUNNING → SUCCESS | RETRYING | DLQ | BLOCKED | FAILED"),
    (STEP_TRANSITIONS, "RETRYING → RUNNING"),
    (STEP_TRANSITIONS, "DLQ | BLOCKED → PENDING"),
    (DEAD_LETTER_TRANSITIONS, "OPEN → REPLAYING → RESOLVED | OPEN | EXHAUSTED"),
    (DEAD_LETTER_TRANSITIONS, "OPEN | EXHAUSTED → RESOLVED | IGNORED | ARCHIVED"),
    (GROUP_TRANSITIONS, "OPEN → ACKNOWLEDGED → RESOLVED → OPEN → IGNORED → OPEN"),
    (REPLAY_TRANSITIONS, "PLANNED → RUNNING → SUCCEEDED | FAILED | CANCELLED"),
    (OPERATION_TRANSITIONS, "PLANNED → RUNNING → PAUSED → RUNNING → STOPPED → RUNNING → DONE"),
]


@loop_over(("table", "chain"), PROMISED)
def test_every_transition_of_the_glossary_is_allowed(table: TransitionTable[Any], chain: str) -> None:
    kind = type(table.initial)
    groups = [[kind(word.strip()) for word in group.split("|")] for group in chain.split("→")]
    for befores, afters in pairwise(groups):
        for before in befores:
            for after in afters:
                table.check(before, after)


@loop_over(
    ("table", "before", "after"),
    [
        (RUN_TRANSITIONS, RunState.SUCCESS, RunState.FAILED),
        (RUN_TRANSITIONS, RunState.CANCELLED, RunState.RUNNING),
        (RUN_TRANSITIONS, RunState.PENDING, RunState.SUCCESS),
        (STEP_TRANSITIONS, StepState.SUCCESS, StepState.FAILED),
        (STEP_TRANSITIONS, StepState.DLQ, StepState.RUNNING),
        (STEP_TRANSITIONS, StepState.CANCELLED, StepState.PENDING),
        (DEAD_LETTER_TRANSITIONS, DeadLetterState.REPLAYING, DeadLetterState.ARCHIVED),
        (DEAD_LETTER_TRANSITIONS, DeadLetterState.RESOLVED, DeadLetterState.IGNORED),
    ],
)
def test_transitions_that_are_not_listed_are_rejected(
    table: TransitionTable[Any], before: StrEnum, after: StrEnum
) -> None:
    with pytest.raises(
        TransitionError, match=f"cannot change from {before} to {after}; from {before} it can change to"
    ):
        table.check(before, after)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.noun)
def test_every_state_is_reached_from_the_first(table: TransitionTable[Any]) -> None:
    reached, waiting = {table.initial}, [table.initial]
    while waiting:
        new = table.successors(waiting.pop()) - reached
        reached |= new
        waiting += new
    assert reached == set(type(table.initial).__members__.values())


STEP_WORDS = {
    "idle": "PENDING",
    "queued": "PENDING",
    "running": "RUNNING",
    "done": "SUCCESS",
    "retry_wait": "RETRYING",
    "blocked": "BLOCKED",
    "dlq": "DLQ",
    "replaying": "PENDING",
}
DEAD_LETTER_WORDS = {
    "pending": "OPEN",
    "replaying": "REPLAYING",
    "retrying": "REPLAYING",
    "replayed": "RESOLVED",
    "completed": "RESOLVED",
    "discarded": "IGNORED",
    "exhausted": "EXHAUSTED",
    "archived": "ARCHIVED",
    "idle": "OPEN",
    "blocked": "OPEN",
    "dlq": "OPEN",
    "queued": "REPLAYING",
    "running": "REPLAYING",
    "retry_wait": "REPLAYING",
    "done": "RESOLVED",
}


class TestAliases:
    """The external words of the source documents, which filters accept."""

    @loop_over(("word", "state"), STEP_WORDS.items())
    def test_steps(self, word: str, state: str) -> None:
        assert step_state(word) == state

    @loop_over(("word", "state"), DEAD_LETTER_WORDS.items())
    def test_dead_letters(self, word: str, state: str) -> None:
        assert dead_letter_state(word) == state

    def test_the_own_names_in_any_case(self) -> None:
        assert step_state("Dlq") is StepState.DLQ
        assert all(dead_letter_state(each.lower()) is each for each in DeadLetterState)

    def test_an_unknown_word_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(
            InvalidValueError, match="unknown state 'gone'; use one of: open, replaying, exhausted"
        ):
            dead_letter_state("gone")
