"""The step of a run that the running code belongs to, if a worker executes it.

Calls name the step to other systems, and stop when it has lost its lease.
"""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from typing import Protocol

_DIGEST_BYTES = 8


class RunningStep(Protocol):
    @property
    def run_id(self) -> str: ...

    @property
    def correlation_id(self) -> str: ...

    @property
    def idempotency_key(self) -> str: ...

    def require_lease(self) -> None:
        """Raise LeaseLostError if another worker may execute the step."""


RUNNING_STEP: ContextVar[RunningStep | None] = ContextVar("redrive_running_step", default=None)


def require_lease() -> None:
    """Raise LeaseLostError in a step whose lease is lost: it must not reach another system any more."""
    step = RUNNING_STEP.get()
    if step is not None:
        step.require_lease()


def key_of_request(step: RunningStep, *parts: object) -> str:
    """Return the key of the step and a digest of the request.

    The key is the same in every attempt of the step. Two different requests of one step have different keys:
    with the same one, a server would take the second for a repetition of the first.
    """
    request = hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{step.idempotency_key}:{request}"
