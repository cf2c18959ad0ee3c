"""Runs, as answers have them. What the book of runs gives is redacted already."""

from __future__ import annotations

from typing import Any

from redrive.engine.history import Happening
from redrive.engine.run_view import RunSummary, RunView, StepView
from redrive.server.answer import when

_RUN_TIMES = (
    "submitted_at",
    "due_at",
    "first_failed_at",
    "last_failed_at",
    "started_at",
    "attempt_started_at",
    "ended_at",
    "cancel_requested_at",
)
_STEP_TIMES = ("next_retry_at", "first_failed_at", "last_failed_at", "started_at", "ended_at")


def line_view(run: RunSummary) -> dict[str, Any]:
    fields = {**vars(run), "next_retry_at": when(run.next_retry_at)}
    for name in _RUN_TIMES:
        fields[name] = when(fields[name])
    return fields


def run_view(run: RunView) -> dict[str, Any]:
    error, letter = run.error, run.dead_letter
    return {
        **line_view(run),
        "steps": [each._asdict() for each in run.steps],
        "error": None if error is None else {**error._asdict(), "at": when(error.at)},
        "dead_letter": None if letter is None else letter._asdict(),
    }


def step_view(step: StepView) -> dict[str, Any]:
    fields = step._asdict()
    for name in _STEP_TIMES:
        fields[name] = when(fields[name])
    return fields


def happening_view(happening: Happening) -> dict[str, Any]:
    index = happening.step_index
    return {**happening._asdict(), "at": when(happening.at), "step_index": None if index < 0 else index}
