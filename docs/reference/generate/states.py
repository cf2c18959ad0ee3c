"""Generates the page of all states, with a diagram and a table for each state machine."""

from __future__ import annotations

from typing import Any

from docs.reference.generate.page import NOTE, page, table

from redrive.model.breaker import BREAKER_TRANSITIONS
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS
from redrive.model.failure_group import GROUP_TRANSITIONS
from redrive.model.replay import OPERATION_TRANSITIONS, REPLAY_TRANSITIONS
from redrive.model.run import RUN_TRANSITIONS
from redrive.model.step import STEP_TRANSITIONS
from redrive.model.transition import TransitionTable

TABLES: tuple[TransitionTable[Any], ...] = (
    RUN_TRANSITIONS,
    STEP_TRANSITIONS,
    DEAD_LETTER_TRANSITIONS,
    GROUP_TRANSITIONS,
    REPLAY_TRANSITIONS,
    OPERATION_TRANSITIONS,
    BREAKER_TRANSITIONS,
)
INTRODUCTION = (
    "These diagrams are generated from the transition tables in the code. A vertical line is a state, an "
    "arrow is a transition, and a dot is a state in which the transition can start. The bold frame is the "
    "initial state. Redrive rejects a write that would make any other transition."
)


def states() -> str:
    parts = ["# States", NOTE, INTRODUCTION]
    for each in TABLES:
        rows = [(f"`{one.before}`", f"`{one.after}`", one.cause) for one in each.transitions]
        parts += [
            f"## {each.noun.capitalize()}",
            f"![The states of a {each.noun}; the table below lists transitions](../images/{file_of(each)})",
            table(("from", "to", "when"), rows),
        ]
    return page(*parts)


def file_of(table: TransitionTable[Any]) -> str:
    return f"states-of-a-{table.noun.replace(' ', '-')}.svg"
