"""The caller: on whose behalf something is done. The org comes from the credential."""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import InvalidValueError


class Caller(NamedTuple):
    """`name` is what audit entries say; `org` is in every query that is made for this caller."""

    org: str
    name: str


APPLICATION = "application"
"""Who it is, where nobody is named."""

MAX_NAME_LENGTH = 200

SELF = "redrive"
"""The name that Redrive's own doings have in audit entries."""


def checked_caller(name: object) -> str:
    """The name of somebody who acts. Nobody but Redrive acts under its name."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidValueError(
            f"the name of whoever does it must have 1 to {MAX_NAME_LENGTH} printable characters, got {name!r}"
        )
    if name.strip().lower() == SELF:
        raise InvalidValueError(f"{name!r} is the name that Redrive itself acts under; give another one")
    return name
