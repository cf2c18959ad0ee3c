"""A replay: executing a dead letter's work again. Replays are also the items of bulk operations."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from redrive.model.fact import StoredFact
from redrive.model.field import Instant, Json, RunId
from redrive.model.row import Row
from redrive.model.step import Effect
from redrive.model.transition import TransitionTable, moves

HIDDEN = "(changed, not shown)"
"""In a payload change: both values are secret."""
NOTHING = "(nothing)"
"""In a payload change: the field was added or removed."""
REPLAYED = "replayed"
"""The resolution of a dead letter whose step succeeded in a replay."""


class Mode(StrEnum):
    """`STEP_ONLY` executes only the failed step; `FROM_STEP` continues to the end of the run."""

    STEP_ONLY = "STEP_ONLY"
    FROM_STEP = "FROM_STEP"


class ReplayState(StrEnum):
    """The state of a replay. `REFUSED`: it could not start; `SKIPPED`: the plan left it out on request."""

    PLANNED = "PLANNED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    REFUSED = "REFUSED"
    SKIPPED = "SKIPPED"


class OperationState(StrEnum):
    """The state of an operation. `STOPPED`: it stopped automatically; `stopped_because` has the reason."""

    PLANNED = "PLANNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


class Replay(Row, frozen=True, kw_only=True):
    """A stored replay.

    edit    the redacted changes of the payload, as JSON
    number  the number of this replay among the replays of its run
    """

    id: str
    org: str
    operation_id: str | None
    position: int
    letter_id: str
    run_id: RunId
    step_index: int
    from_step: int
    mode: Mode
    state: ReplayState
    automatic: bool
    requested_by: str
    requested_at: Instant
    reason: str
    policy_override: Json
    edit: Json
    fingerprint: str
    effect: Effect
    breaker: str | None
    started_at: Instant | None
    ended_at: Instant | None
    fingerprint_after: str | None
    note: StoredFact | None
    number: int | None = None


class ReplayStep(NamedTuple):
    """A step that a replay executes.

    number   its position in the run, from 1
    repeats  whether an earlier attempt may have executed it
    """

    number: int
    name: str
    effect: Effect
    breaker: str | None
    repeats: bool


class ReplayPreview(NamedTuple):
    """What a replay of one dead letter would do.

    steps    the steps that it executes, in order; each later one only if the step before succeeds
    reused   how many results of earlier steps it reuses
    changes  of the payload: path, before and after, redacted
    """

    letter_id: str
    run_id: str
    mode: Mode
    from_step: int
    steps: Sequence[ReplayStep]
    reused: int
    changes: Sequence[Any]


_P, _R = ReplayState.PLANNED, ReplayState.RUNNING
_ENDS = (ReplayState.SUCCEEDED, ReplayState.FAILED, ReplayState.CANCELLED)

REPLAY_TRANSITIONS = TransitionTable(
    "replay",
    _P,
    [
        *moves("started", [_P], [_R]),
        *moves("it could not start", [_P], [ReplayState.REFUSED]),
        *moves("left out on request", [_P], [ReplayState.SKIPPED]),
        *moves("the operation was cancelled", [_P], [ReplayState.CANCELLED]),
        *moves("its run finished", [_R], _ENDS),
    ],
)

_PLANNED, _RUNNING = OperationState.PLANNED, OperationState.RUNNING
_PAUSED, _STOPPED = OperationState.PAUSED, OperationState.STOPPED

OPERATION_TRANSITIONS = TransitionTable(
    "bulk replay",
    _PLANNED,
    [
        *moves("started", [_PLANNED], [_RUNNING]),
        *moves("paused", [_RUNNING], [_PAUSED]),
        *moves("resumed", [_PAUSED, _STOPPED], [_RUNNING]),
        *moves("stopped automatically", [_RUNNING], [_STOPPED]),
        *moves("every item finished", [_RUNNING], [OperationState.DONE]),
        *moves("cancelled", [_PLANNED, _RUNNING, _PAUSED, _STOPPED], [OperationState.CANCELLED]),
    ],
)
