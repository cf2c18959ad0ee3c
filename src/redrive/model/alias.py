"""Aliases: states that filters accept, events in the words of a job queue. Internally, each has one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from redrive.errors import InvalidValueError
from redrive.model.dead_letter import DeadLetterState
from redrive.model.run import FAILED_RUNS, RunPosition, RunState
from redrive.model.step import StepState

State = TypeVar("State", bound=StrEnum)

STEP_ALIASES = MappingProxyType(
    {
        "idle": StepState.PENDING,
        "queued": StepState.PENDING,
        "running": StepState.RUNNING,
        "done": StepState.SUCCESS,
        "retry_wait": StepState.RETRYING,
        "blocked": StepState.BLOCKED,
        "dlq": StepState.DLQ,
        "replaying": StepState.PENDING,
    }
)

DEAD_LETTER_ALIASES = MappingProxyType(
    {
        "pending": DeadLetterState.OPEN,
        "failed": DeadLetterState.OPEN,
        "replaying": DeadLetterState.REPLAYING,
        "retrying": DeadLetterState.REPLAYING,
        "replayed": DeadLetterState.RESOLVED,
        "completed": DeadLetterState.RESOLVED,
        "discarded": DeadLetterState.IGNORED,
        "exhausted": DeadLetterState.EXHAUSTED,
        "archived": DeadLetterState.ARCHIVED,
        "idle": DeadLetterState.OPEN,
        "blocked": DeadLetterState.OPEN,
        "dlq": DeadLetterState.OPEN,
        "queued": DeadLetterState.REPLAYING,
        "running": DeadLetterState.REPLAYING,
        "retry_wait": DeadLetterState.REPLAYING,
        "done": DeadLetterState.RESOLVED,
    }
)

RUN_ALIASES: Mapping[str, RunState | RunPosition] = MappingProxyType(
    {
        "idle": RunState.PENDING,
        "queued": RunState.PENDING,
        "done": RunState.SUCCESS,
        "completed": RunState.SUCCESS,
        "succeeded": RunState.SUCCESS,
        "dlq": RunState.DLQ_PENDING,
        "exhausted": RunState.DLQ_PENDING,
        "canceled": RunState.CANCELLED,
        "retry_wait": RunPosition.RETRYING,
        "leased": RunPosition.EXECUTING,
    }
)
"""A run that is `running` is not necessarily executing: between attempts and steps it is RUNNING, too."""


JOB_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "queued": "queued",
        "replayed": "queued",
        "released": "queued",
        "started": "processing",
        "retry": "retry",
        "lost": "retry",
    }
)
"""Events of a run in the words of a job queue. The other events have no such word."""

JOB_EVENTS_AT_THE_END: Mapping[str, str] = MappingProxyType(
    {RunState.SUCCESS: "complete", **dict.fromkeys(FAILED_RUNS, "failed")}
)


def step_state(word: str) -> StepState:
    return _lookup(word, StepState, STEP_ALIASES, StepState)


def dead_letter_state(word: str, known: Iterable[str] = DeadLetterState) -> DeadLetterState:
    """Return the state of this name or alias. An error suggests the names in `known`."""
    return _lookup(word, DeadLetterState, DEAD_LETTER_ALIASES, known)


def _lookup(
    word: str, states: type[State], aliases: MappingProxyType[str, State], known: Iterable[str]
) -> State:
    by_name = states.__members__.get(word.upper())
    state = by_name or aliases.get(word.lower())
    if state is None:
        names = ", ".join(name.lower() for name in known)
        raise InvalidValueError(f"unknown state {word!r:.100}; use one of: {names}")
    return state
