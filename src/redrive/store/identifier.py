"""Ids that somebody hands in: what cannot be one, is one that does not exist."""

from __future__ import annotations


def findable(identifier: object) -> str:
    """The id as it can be asked for on every database; nothing has the empty one."""
    return identifier if isinstance(identifier, str) and identifier.isprintable() else ""
