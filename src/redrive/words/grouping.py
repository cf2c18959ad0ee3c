"""Why failures belong to one group: what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_SITUATION = ("type", "step", "status")


def _with_situation(same: str, it: Mapping[str, Any]) -> str:
    known = ", ".join(f"{name} {it[name]}" for name in _SITUATION if it.get(name))
    return f"{same}; {known}" if known else same


GROUPINGS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "same_key": lambda it: f"the same key: {it['key']}",
        "same_call_path": lambda it: _with_situation(
            f"the same call path: {', called by '.join(it['calls'])}", it
        ),
        "same_message": lambda it: _with_situation(
            "the same message, ignoring numbers, ids and quoted values", it
        ),
    }
)
"""The text of each reason for which failures share a fingerprint."""
