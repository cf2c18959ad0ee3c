"""A guard: what goes wrong without it, the patches that switch it off, and the tests that notice."""

from __future__ import annotations

from typing import NamedTuple

from tests.guards.patch import Patch


class Guard(NamedTuple):
    """A guard of the engine, the store or the server.

    prevents    what goes wrong without the guard
    catchers    ids of tests that must fail without the guard
    doubled_by  another guard that prevents the same, so that no test can notice the absence of this one alone
    """

    name: str
    prevents: str
    patches: tuple[Patch, ...]
    catchers: tuple[str, ...] = ()
    doubled_by: str = ""
