"""The caller: on whose behalf something is done. The org comes from the credential."""

from __future__ import annotations

from typing import NamedTuple


class Caller(NamedTuple):
    """`name` is what audit entries say; `org` is in every query that is made for this caller."""

    org: str
    name: str


APPLICATION = "application"
"""Who it is, where nobody is named."""

SELF = "redrive"
"""The name that Redrive's own doings have in audit entries."""
