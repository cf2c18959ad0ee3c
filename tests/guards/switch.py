"""Switching a guard off: for the time of a block, or for the whole life of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.guards.patch import GuardMovedError
from tests.guards.table import GUARDS

VARIABLE = "REDRIVE_WITHOUT_GUARD"


@contextmanager
def switched_off(name: str) -> Iterator[None]:
    """Work without the guard of this name, in this process."""
    if name not in GUARDS:
        raise LookupError(f"there is no guard {name!r}; known are: {', '.join(GUARDS)}")
    with ExitStack() as stack:
        for patch in GUARDS[name].patches:
            try:
                stack.enter_context(patch.applied())
            except GuardMovedError as moved:
                raise GuardMovedError(f"the guard {name!r} needs a new patch: {moved}") from None
        yield


def switch_off_from_environment() -> None:
    """Work without the guard that REDRIVE_WITHOUT_GUARD names, if it names one, until the process ends."""
    name = os.environ.get(VARIABLE)
    if name:
        _FOR_GOOD.enter_context(switched_off(name))


_FOR_GOOD = ExitStack()
