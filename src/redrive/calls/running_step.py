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


class StepSlot:
    """Holds the step while it runs.

    A timer of the event loop keeps a copy of its context, and so this slot, long after it was cancelled. It
    must not keep the step's payload in memory.
    """

    __slots__ = ("step",)

    def __init__(self, step: RunningStep) -> None:
        self.step: RunningStep | None = step


_SLOT: ContextVar[StepSlot | None] = ContextVar("redrive_running_step", default=None)


def enter_step(step: RunningStep) -> StepSlot:
    """Make this the running step of the current context, until the slot is emptied."""
    slot = StepSlot(step)
    _SLOT.set(slot)
    return slot


def running_step() -> RunningStep | None:
    slot = _SLOT.get()
    return None if slot is None else slot.step


def require_lease() -> None:
    """Raise LeaseLostError in a step whose lease is lost: it must not reach another system any more."""
    slot = _SLOT.get()
    if slot is not None and slot.step is not None:
        slot.step.require_lease()


def key_of_request(step: RunningStep, *parts: object) -> str:
    """Return the key of the step and a digest of the request.

    The key is the same in every attempt of the step. Two different requests of one step have different keys:
    with the same one, a server would take the second for a repetition of the first.
    """
    request = hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{step.idempotency_key}:{request}"
