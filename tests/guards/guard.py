"""A guard: what it prevents, how it is taken away, and what notices its absence."""

from __future__ import annotations

from typing import NamedTuple

from tests.guards.patch import Patch


class Guard(NamedTuple):
    """Every catcher, the id of a test, must fail without the guard.

    doubled_by  another guard prevents the same, so that nothing can notice the absence of this one alone
    """

    name: str
    prevents: str
    patches: tuple[Patch, ...]
    catchers: tuple[str, ...] = ()
    doubled_by: str = ""
