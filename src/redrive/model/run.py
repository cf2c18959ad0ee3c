"""A run: one execution of a workflow. A job is a run of one step."""

from __future__ import annotations

from enum import StrEnum

from redrive.model.transition import TransitionTable, moves


class RunState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    PARTIAL = "PARTIAL"
    DLQ_PENDING = "DLQ_PENDING"
    CANCELLED = "CANCELLED"


_P, _R = RunState.PENDING, RunState.RUNNING
_ENDED_WITH_FAILURE = (RunState.FAILED, RunState.PARTIAL, RunState.DLQ_PENDING)

RUN_TRANSITIONS = TransitionTable(
    "run",
    _P,
    [
        *moves("a step is claimed", [_P], [_R]),
        *moves("the last step succeeded", [_R], [RunState.SUCCESS]),
        *moves("a step failed for good", [_R], [RunState.FAILED]),
        *moves("a step replayed alone succeeded", [_R], [RunState.PARTIAL]),
        *moves("a step became a dead letter", [_R], [RunState.DLQ_PENDING]),
        *moves("cancelled", [_P, _R, *_ENDED_WITH_FAILURE], [RunState.CANCELLED]),
        *moves("replayed", _ENDED_WITH_FAILURE, [_R]),
    ],
)
