"""Triage by category: which failures become dead letters, and how those are redriven."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from redrive.model.fact import Fact, fact
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
    """Which failures become dead letters. `SELECTIVE`: the failures that a redrive can fix."""

    AUTOMATIC = "automatic"
    SELECTIVE = "selective"
    MANUAL = "manual"
    DISABLED = "disabled"


def rejection(strategy: Strategy, category: Category, *, requested: bool = False) -> Fact | None:
    """Return why a failure does not become a dead letter; None if it does. `requested`: on request."""
    if strategy is Strategy.DISABLED:
        return fact("queue_disabled")
    if requested or strategy is Strategy.AUTOMATIC:
        return None
    if strategy is Strategy.MANUAL:
        return fact("only_on_request")
    if redrive_policy(category) is REDRIVE_NEVER:
        return fact("redrive_cannot_help", category=str(category))
    return None
