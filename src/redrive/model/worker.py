"""The condition of a worker, and what prevents a live one from working."""

from __future__ import annotations

from typing import NamedTuple

SILENT_SECONDS = 60.0
"""A worker without a heartbeat (due every 10 s) for this long counts as dead, whatever its stored state."""


def worker_condition(state: str, seconds_silent: float, seconds_blocked: float | None) -> str:
    """Return the stored state, "silent" for a worker that stopped reporting, or "blocked"."""
    if state != "stopped" and seconds_silent > SILENT_SECONDS:
        return "silent"
    return "blocked" if state != "stopped" and seconds_blocked is not None else state


class BlockingStep(NamedTuple):
    """The step that a worker's event loop was executing when it stopped answering."""

    run_id: str
    org: str
    workflow: str
    step: str
    task: str
    attempt: int
