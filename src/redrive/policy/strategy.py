"""Strategies: which failures enter the dead-letter queue (M5)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from redrive.model.failure import Category
from redrive.policy.presets import REDRIVE_NEVER
from redrive.policy.triage import redrive_policy


class Strategy(StrEnum):
    """`SELECTIVE` takes what a later redrive can help; `MANUAL` only what somebody asks it to take."""

    AUTOMATIC = "automatic"
    SELECTIVE = "selective"
    MANUAL = "manual"
    DISABLED = "disabled"


class Admission(NamedTuple):
    """True or false, and why."""

    admitted: bool
    reason: str

    def __bool__(self) -> bool:
        return self.admitted


def enters(strategy: Strategy, category: Category, requested: bool = False) -> Admission:
    """Does a failure of this category enter the queue? `requested`: somebody asked for exactly this one."""
    if strategy is Strategy.DISABLED:
        return Admission(False, "the dead-letter queue is disabled")
    if requested:
        return Admission(True, "somebody asked for it")
    if strategy is Strategy.AUTOMATIC:
        return Admission(True, "every failure enters")
    if strategy is Strategy.MANUAL:
        return Admission(False, "only what somebody asks for enters")
    if redrive_policy(category) is REDRIVE_NEVER:
        return Admission(False, f"trying again later does not help against {category}")
    return Admission(True, f"trying again later may help against {category}")
