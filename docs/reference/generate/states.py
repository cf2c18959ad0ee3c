"""The page of all states, with a drawing and a table for each kind of thing."""

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
    "Drawn from the tables in the code. A line down is a state, an arrow is a way to change it, a dot is "
    "where that may begin; the strong frame is the state in which everything begins. What is not drawn here "
    "cannot happen: a write that would do it is refused."
)


def states() -> str:
    parts = ["# States", NOTE, INTRODUCTION]
    for each in TABLES:
        rows = [(f"`{one.before}`", f"`{one.after}`", one.cause) for one in each.transitions]
        parts += [
            f"## {each.noun.capitalize()}",
            f"![The states of a {each.noun}, as in the table below](../images/{file_of(each)})",
            table(("from", "to", "when"), rows),
        ]
    return page(*parts)


def file_of(table: TransitionTable[Any]) -> str:
    return f"states-of-a-{table.noun.replace(' ', '-')}.svg"
