"""Triage by category: which failures become dead letters, and how those are redriven."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from redrive.model.failure import Category
from redrive.policy.presets import REDRIVE_EXPONENTIAL, REDRIVE_LINEAR, REDRIVE_NEVER
from redrive.policy.retry import RetryPolicy


class Triage(StrEnum):
    """Groups of categories that are redriven alike."""

    TRANSIENT = "transient"
    NETWORK = "network"
    RESOURCE = "resource"
    PERMISSION = "permission"
    VALIDATION = "validation"
    PERMANENT = "permanent"


_TRIAGE = MappingProxyType(
    {
        Category.PROVIDER_5XX: Triage.TRANSIENT,
        Category.RATE_LIMIT: Triage.TRANSIENT,
        Category.CANCELLED: Triage.TRANSIENT,
        Category.TIMEOUT: Triage.NETWORK,
        Category.NETWORK: Triage.NETWORK,
        Category.RESOURCE: Triage.RESOURCE,
        Category.PERMISSION: Triage.PERMISSION,
        Category.VALIDATION: Triage.VALIDATION,
    }
)

_REDRIVE = MappingProxyType(
    {
        Triage.TRANSIENT: REDRIVE_EXPONENTIAL,
        Triage.NETWORK: REDRIVE_EXPONENTIAL,
        Triage.RESOURCE: REDRIVE_LINEAR,
    }
)


def triage(category: Category) -> Triage:
    return _TRIAGE.get(category, Triage.PERMANENT)


def redrive_policy(category: Category) -> RetryPolicy:
    """Return how dead letters of this category are redriven by default."""
    return _REDRIVE.get(triage(category), REDRIVE_NEVER)


class Strategy(StrEnum):
    """Which failures become dead letters: with `SELECTIVE` those that a redrive can fix."""

    AUTOMATIC = "automatic"
    SELECTIVE = "selective"
    MANUAL = "manual"
    DISABLED = "disabled"


class QueueAdmission(NamedTuple):
    """Whether a failure becomes a dead letter, and why."""

    admitted: bool
    reason: str

    def __bool__(self) -> bool:
        return self.admitted


def enters(strategy: Strategy, category: Category, requested: bool = False) -> QueueAdmission:
    """Decide whether a failure becomes a dead letter; `requested`: the caller asked for this one."""
    if strategy is Strategy.DISABLED:
        return QueueAdmission(False, "the dead-letter queue is disabled")
    if requested:
        return QueueAdmission(True, "it was requested")
    if strategy is Strategy.AUTOMATIC:
        return QueueAdmission(True, "every failure enters")
    if strategy is Strategy.MANUAL:
        return QueueAdmission(False, "only requested failures enter")
    if redrive_policy(category) is REDRIVE_NEVER:
        return QueueAdmission(False, f"trying again later does not help against {category}")
    return QueueAdmission(True, f"trying again later may help against {category}")
