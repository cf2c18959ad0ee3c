"""JSON that is stored as text, given as JSON."""

from __future__ import annotations

from typing import Any

from redrive.errors import NotStorableError
from redrive.policy.codec import decode


def decoded(text: str | None) -> Any:
    """None where there is none. What somebody has damaged by hand must not keep the rest from being shown."""
    if text is None:
        return None
    try:
        return decode(text)
    except NotStorableError:
        return None


def words(text: str | None) -> list[str]:
    """Such as tags."""
    value = decoded(text)
    return [str(each) for each in value] if isinstance(value, list) else []


def mapping(text: str | None) -> dict[str, Any]:
    value = decoded(text)
    return value if isinstance(value, dict) else {}
