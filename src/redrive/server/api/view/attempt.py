"""Attempts, as answers have them."""

from __future__ import annotations

from typing import Any

from redrive.engine.run_view import AttemptView
from redrive.server.answer import when


def attempt_view(attempt: AttemptView) -> dict[str, Any]:
    times = {"started_at": when(attempt.started_at), "ended_at": when(attempt.ended_at)}
    return {**attempt._asdict(), **times}
