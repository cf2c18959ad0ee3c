"""Presets: the named policies with their documented defaults."""

from __future__ import annotations

from types import MappingProxyType

from redrive.errors import NotFoundError
from redrive.model.failure import Category
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Exponential, Immediate, Linear, Never
from redrive.policy.jitter import Additive, Equal, Proportional
from redrive.policy.retry import RetryPolicy
from redrive.words.suggestion import suggest

MINUTE = 60.0

STEP = RetryPolicy(
    name="step",
    max_attempts=4,
    backoff=Backoff(Exponential(2.0, 2.0), cap=120.0, jitter=Proportional(0.25)),
)
"""A step of a workflow: waits about 2, 4 and 8 s."""

CALL = RetryPolicy(
    name="call",
    max_attempts=3,
    backoff=Backoff(Exponential(0.25, 2.0), cap=5.0, jitter=Equal()),
    max_rate_limit_waits=10,
)
"""An outbound call: waits up to 250 and 500 ms."""

RUN = RetryPolicy(
    name="run",
    max_attempts=8,
    backoff=Backoff(Exponential(60.0, 2.0), cap=3600.0),
)
"""A whole run: waits 1, 2, 4 … 60 minutes."""

GATEWAY = RetryPolicy(
    name="gateway",
    max_attempts=3,
    backoff=Backoff(Exponential(5.0, 2.0), jitter=Additive(5.0)),
    also_retry=frozenset({Category.UNKNOWN}),
    never_retry=frozenset({Category.PROVIDER_4XX, Category.CONFLICT}),
)
"""Work behind a gateway: waits 5–10 and 10–15 s; retries unknown errors, but never a 4xx."""

REDRIVE_NEVER = RetryPolicy(name="never", max_attempts=1, backoff=Backoff(Never()))
REDRIVE_LINEAR = RetryPolicy(name="linear", max_attempts=4, backoff=Backoff(Linear(5 * MINUTE, 5 * MINUTE)))
REDRIVE_EXPONENTIAL = RetryPolicy(
    name="exponential", max_attempts=4, backoff=Backoff(Exponential(MINUTE, 2.0), cap=60 * MINUTE)
)
REDRIVE_IMMEDIATE = RetryPolicy(name="immediate", max_attempts=4, backoff=Backoff(Immediate()))

REDRIVE_POLICIES = MappingProxyType(
    {
        policy.name: policy
        for policy in (REDRIVE_NEVER, REDRIVE_LINEAR, REDRIVE_EXPONENTIAL, REDRIVE_IMMEDIATE)
    }
)
"""Policies of automatic redrives; `exponential` is the default."""

PRESETS = MappingProxyType({policy.name: policy for policy in (STEP, CALL, RUN, GATEWAY)}) | REDRIVE_POLICIES


def preset(name: str) -> RetryPolicy:
    if name not in PRESETS:
        raise NotFoundError(f"there is no policy {name!r}; {suggest(name, PRESETS)}")
    return PRESETS[name]
