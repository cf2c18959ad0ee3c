"""Replays of events and rebuilds: why a projection is not executed again, and why a rebuild stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

EVENT_REPLAYS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "projection_unfinished": lambda it: f"its execution is not finished: it is {it['status']}",
        "projector_not_declared": lambda it: (
            f"this program does not declare the projector {it['projector']!r} in version {it['version']}. "
            f"Use a program that does, for example with --app"
        ),
        "projector_ignores_type": lambda it: f"the projector does not process events of type {it['type']!r}",
        "projection_changed": lambda it: "it has changed since. Look at the event again",
        "rebuild_failures": lambda it: (
            f"the projector has {it['failures']:,} new dead letters since the rebuild was started or resumed"
        ),
    }
)
"""The sentence of each fact."""
