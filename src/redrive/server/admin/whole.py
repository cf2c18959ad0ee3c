"""All that a query finds, to be acted on at once: how many it is, exactly, or why it cannot be done."""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import InvalidValueError
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterState
from redrive.model.query import Count, Query, letter_states
from redrive.policy.query import MAX_QUERY_LENGTH, parse

actionable = (DeadLetterState.OPEN, DeadLetterState.EXHAUSTED)
"""What can be replayed and closed."""

ALIKE = frozenset({"is", "step", "error", "fp"})
"""Keys that find a group and its dead letters alike: a failure may occur in several workflows, and the time
of a group is that of its last dead letter."""


class Whole(NamedTuple):
    """`narrowed`: the query also finds others, which are left out."""

    query: str
    number: int
    narrowed: bool
    reason: str = ""


async def whole_of(
    desk: Failures, text: str, known: Count | None = None, *, grouped: bool = False
) -> Whole | None:
    """None where there is nothing to act on, or no query for it. `known` is how many dead letters match."""
    try:
        query = parse(text)
    except InvalidValueError:
        return None
    if grouped and not {term.key for term in query.terms} <= ALIKE:
        return None
    asked, narrowed = _narrowed(text, query)
    count = known if known and not narrowed else await desk.dead_letters.count(asked)
    if count.capped:
        reason = (
            f"More than {MAX_CONCURRENT:,} match, and at most so many are changed at once: narrow the query"
        )
        return Whole(asked, count.number, narrowed, reason)
    return Whole(asked, count.number, narrowed) if count.number else None


def _narrowed(text: str, query: Query) -> tuple[str, bool]:
    if set(letter_states(query)) <= set(actionable):
        return text, False
    asked = f"{text} is:open,exhausted"
    return (asked, True) if len(asked) <= MAX_QUERY_LENGTH else (text, False)
