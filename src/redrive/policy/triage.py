"""What to do with a dead letter by its category (M4)."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from redrive.model.failure import Category
from redrive.policy.presets import REDRIVE_EXPONENTIAL, REDRIVE_LINEAR, REDRIVE_NEVER
from redrive.policy.retry import RetryPolicy


class Triage(StrEnum):
    """The coarse kinds by which dead letters are redriven."""

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
    """How dead letters of this category are redriven unless somebody says otherwise."""
    return _REDRIVE.get(triage(category), REDRIVE_NEVER)
