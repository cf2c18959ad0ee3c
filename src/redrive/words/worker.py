"""Sentences about workers that are alive but do not work."""

from __future__ import annotations

from redrive.model.worker import BlockingStep
from redrive.words.time import age


def blocked_text(seconds: float, step: BlockingStep | None) -> str:
    """Say for how long an event loop has not answered, and which step blocks it."""
    by = "" if step is None else f"; step {step.step!r} of run {step.run_id} blocks it"
    return f"its event loop has not answered for {age(seconds)}{by}"


def overrun_text(step: str, seconds: float, timeout: float) -> str:
    return f"step {step!r} has been running for {age(seconds)}, and its timeout is {age(timeout)}"
