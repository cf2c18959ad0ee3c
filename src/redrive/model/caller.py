"""The caller: the org and the actor of a request. The org comes from the credential."""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import InvalidValueError


class Caller(NamedTuple):
    """`name` appears in audit entries; `org` restricts every query made for this caller."""

    org: str
    name: str


APPLICATION = "application"
"""The default name of a caller."""

MAX_NAME_LENGTH = 200

SELF = "redrive"
"""The name of Redrive's own actions in audit entries."""


def checked_caller(name: object) -> str:
    """Check the name of an actor. The name "redrive" is reserved."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidValueError(
            f"the name of the caller must have 1 to {MAX_NAME_LENGTH} printable characters, got {name!r}"
        )
    if name.strip().lower() == SELF:
        raise InvalidValueError(f"the name {name!r} is reserved for Redrive; use another name")
    return name
