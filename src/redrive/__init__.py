"""Redrive: no failed work is ever lost.

The public names. Each is loaded when it is first used, so that importing the package costs next to nothing
and nobody pays for a part that is not used. Policies, curves and jitters are in `redrive.policy`, all
exceptions in `redrive.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from redrive.errors import (
    BreakerOpenError,
    DeferredError,
    FinalError,
    RateLimitedError,
    RedriveError,
    RetryableError,
    UnavailableError,
)

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.calls.attempt import Attempt, current_attempt
    from redrive.calls.dependency import Dependency, dependency
    from redrive.calls.event import log_fields
    from redrive.calls.guard import Guard, attempts, call, retry
    from redrive.calls.http import AsyncHttpClient, HttpClient
    from redrive.dead_letter_queue import DeadLetterQueue
    from redrive.engine.context import Context
    from redrive.engine.encryption import new_encryption_key
    from redrive.engine.handle import RunHandle, SyncRunHandle
    from redrive.engine.task import Task
    from redrive.failures.service import Failures
    from redrive.model.failure import Category, Delivery, ErrorClass, Failure
    from redrive.model.step import Effect
    from redrive.policy.backoff import Backoff
    from redrive.policy.breaker_policy import BreakerPolicy
    from redrive.policy.budget import BudgetPolicy
    from redrive.policy.classify import Classifier, Rule, classify
    from redrive.policy.idempotency_key import idempotency_key
    from redrive.policy.retry import RetryPolicy
    from redrive.policy.template import Template
    from redrive.settings import Settings

__version__ = "0.1.0"

_HOME = {
    "AsyncHttpClient": "redrive.calls.http",
    "Attempt": "redrive.calls.attempt",
    "Backoff": "redrive.policy.backoff",
    "BreakerPolicy": "redrive.policy.breaker_policy",
    "BudgetPolicy": "redrive.policy.budget",
    "Category": "redrive.model.failure",
    "Classifier": "redrive.policy.classify",
    "Context": "redrive.engine.context",
    "DeadLetterQueue": "redrive.dead_letter_queue",
    "Delivery": "redrive.model.failure",
    "Dependency": "redrive.calls.dependency",
    "Failures": "redrive.failures.service",
    "Effect": "redrive.model.step",
    "ErrorClass": "redrive.model.failure",
    "Failure": "redrive.model.failure",
    "Guard": "redrive.calls.guard",
    "HttpClient": "redrive.calls.http",
    "Redrive": "redrive.app",
    "RetryPolicy": "redrive.policy.retry",
    "Rule": "redrive.policy.classify",
    "RunHandle": "redrive.engine.handle",
    "Settings": "redrive.settings",
    "SyncRunHandle": "redrive.engine.handle",
    "Task": "redrive.engine.task",
    "Template": "redrive.policy.template",
    "attempts": "redrive.calls.guard",
    "call": "redrive.calls.guard",
    "classify": "redrive.policy.classify",
    "current_attempt": "redrive.calls.attempt",
    "dependency": "redrive.calls.dependency",
    "idempotency_key": "redrive.policy.idempotency_key",
    "log_fields": "redrive.calls.event",
    "new_encryption_key": "redrive.engine.encryption",
    "retry": "redrive.calls.guard",
}

__all__ = [
    "AsyncHttpClient",
    "Attempt",
    "Backoff",
    "BreakerOpenError",
    "BreakerPolicy",
    "BudgetPolicy",
    "Category",
    "Classifier",
    "Context",
    "DeadLetterQueue",
    "DeferredError",
    "Delivery",
    "Dependency",
    "Effect",
    "ErrorClass",
    "Failure",
    "Failures",
    "FinalError",
    "Guard",
    "HttpClient",
    "RateLimitedError",
    "Redrive",
    "RedriveError",
    "RetryPolicy",
    "RetryableError",
    "Rule",
    "RunHandle",
    "Settings",
    "SyncRunHandle",
    "Task",
    "Template",
    "UnavailableError",
    "attempts",
    "call",
    "classify",
    "current_attempt",
    "dependency",
    "idempotency_key",
    "log_fields",
    "new_encryption_key",
    "retry",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'redrive' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
