"""The overview, as answers have it."""

from __future__ import annotations

from typing import Any

from redrive.failures.overview import HealsItself, OldestLetter, Overview
from redrive.server.answer import when


def overview_view(overview: Overview) -> dict[str, Any]:
    needs_you, heals_itself = overview.totals
    return {
        "span": overview.span,
        "now": when(overview.now),
        "start": when(overview.start),
        "seconds": overview.width,
        "needs_you": {**needs_you._asdict(), "total": needs_you.total},
        "heals_itself": _heals_view(heals_itself),
        "oldest": None if overview.oldest is None else _oldest_view(overview.oldest),
        "dead_letters": {"came": overview.came, "left": overview.left},
        "replays": {**overview.replays._asdict(), "rate": overview.replays.rate},
        "runs": overview.runs,
    }


def _heals_view(heals: HealsItself) -> dict[str, Any]:
    counts = {"held": heals.held, "retrying": heals.retrying, "total": heals.total}
    return {**heals._asdict(), **{name: count._asdict() for name, count in counts.items()}}


def _oldest_view(oldest: OldestLetter) -> dict[str, Any]:
    return {**oldest._asdict(), "created_at": when(oldest.created_at)}
