"""What prevents a live worker from working."""

from __future__ import annotations

from typing import NamedTuple


class BlockingStep(NamedTuple):
    """The step that a worker's event loop was executing when it stopped answering."""

    run_id: str
    org: str
    workflow: str
    step: str
    task: str
    attempt: int
