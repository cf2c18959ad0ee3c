"""What cannot be done as things stand is told before anybody is asked, and by a dry run as well."""

from __future__ import annotations

from typing import Any

from redrive.errors import TransitionError
from redrive.model.transition import TransitionTable


def require_standing(table: TransitionTable[Any], cause: str, state: str, what: str, done: str) -> None:
    """The server looks again, and is who decides; also about a state that only a newer one knows."""
    allowed = table.before(cause)
    known = {each for move in table.transitions for each in (move.before, move.after)}
    if state in known and state not in allowed:
        raise TransitionError(
            f"{what} is {state}; only one that is {' or '.join(sorted(allowed))} can be {done}"
        )
