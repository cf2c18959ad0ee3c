"""The lease under which the running code executes, if a worker executes it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class HeldLease(Protocol):
    def require_lease(self) -> None:
        """Raise LeaseLostError if another worker may execute the step."""


HELD_LEASE: ContextVar[HeldLease | None] = ContextVar("redrive_held_lease", default=None)


def require_lease() -> None:
    """Raise LeaseLostError in a step whose lease is lost: nothing of it may reach another system any more."""
    lease = HELD_LEASE.get()
    if lease is not None:
        lease.require_lease()
