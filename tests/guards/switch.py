"""Switches a guard off for one block or for the rest of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.guards.patch import GuardMovedError
from tests.guards.table import GUARDS

VARIABLE = "REDRIVE_WITHOUT_GUARD"


@contextmanager
def switched_off(name: str) -> Iterator[None]:
    """Switch this guard off in this process for the duration of the block."""
    if name not in GUARDS:
        raise LookupError(f"unknown guard {name!r}; known guards: {', '.join(GUARDS)}")
    with ExitStack() as stack:
        for patch in GUARDS[name].patches:
            try:
                stack.enter_context(patch.applied())
            except GuardMovedError as moved:
                raise GuardMovedError(f"the guard {name!r} needs a new patch: {moved}") from None
        yield


def switch_off_from_environment() -> None:
    """Switch off the guard named by REDRIVE_WITHOUT_GUARD, if set, until the process exits."""
    name = os.environ.get(VARIABLE)
    if name:
        _FOR_GOOD.enter_context(switched_off(name))


_FOR_GOOD = ExitStack()
