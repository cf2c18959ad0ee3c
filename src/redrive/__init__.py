"""Redrive: no failed work is ever lost.

This package exports the names that most programs use. Each one is loaded on first use, so `import redrive`
is cheap. Other public names are in `redrive.policy` (policies, curves, jitter, classification),
`redrive.calls`, `redrive.errors` (all exceptions), `redrive.types` (return types), `redrive.settings` and
`redrive.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from redrive.errors import (
    FinalError,
    RateLimitedError,
    RedriveError,
    RetryableError,
)

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.calls.attempt import Attempt
    from redrive.calls.dependency import dependency
    from redrive.calls.guard import Guard, attempts, call, retry
    from redrive.calls.http import AsyncHttpClient, HttpClient
    from redrive.dead_letter_queue import DeadLetterQueue
    from redrive.engine.context import Context
    from redrive.engine.handle import RunHandle
    from redrive.engine.task import Task
    from redrive.model.failure import Category
    from redrive.model.step import Effect
    from redrive.policy.backoff import Backoff
    from redrive.policy.breaker_policy import BreakerPolicy
    from redrive.policy.classify import Rule, classify
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
    "Category": "redrive.model.failure",
    "Context": "redrive.engine.context",
    "DeadLetterQueue": "redrive.dead_letter_queue",
    "Effect": "redrive.model.step",
    "Guard": "redrive.calls.guard",
    "HttpClient": "redrive.calls.http",
    "Redrive": "redrive.app",
    "RetryPolicy": "redrive.policy.retry",
    "Rule": "redrive.policy.classify",
    "RunHandle": "redrive.engine.handle",
    "Settings": "redrive.settings",
    "Task": "redrive.engine.task",
    "Template": "redrive.policy.template",
    "attempts": "redrive.calls.guard",
    "call": "redrive.calls.guard",
    "classify": "redrive.policy.classify",
    "dependency": "redrive.calls.dependency",
    "idempotency_key": "redrive.policy.idempotency_key",
    "retry": "redrive.calls.guard",
}

__all__ = [
    "AsyncHttpClient",
    "Attempt",
    "Backoff",
    "BreakerPolicy",
    "Category",
    "Context",
    "DeadLetterQueue",
    "Effect",
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
    "Task",
    "Template",
    "attempts",
    "call",
    "classify",
    "dependency",
    "idempotency_key",
    "retry",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        from redrive.renamed import PUBLIC

        hint = f"; it is {PUBLIC[name]}" if name in PUBLIC else ""
        raise AttributeError(f"module 'redrive' has no attribute {name!r}{hint}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
