"""Selections of dead letters: how many a query, a group or a list of ids selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotFoundError
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.failures.service import Failures
from redrive.model.dead_letter import ACTIONABLE, LIVE, DeadLetterLine
from redrive.model.operation import MAX_ITEMS
from redrive.model.query import Count, Query, Term, letter_states
from redrive.model.step import Effect
from redrive.policy.query import MAX_QUERY_LENGTH, parse

MAX_LISTED = 5
SAME_FOR_GROUPS = frozenset({"is", "step", "error", "fp"})
"""Keys that select a group and its dead letters alike. Others don't: a failure may occur in several
workflows, and the time of a group is that of its last dead letter."""

_IS_LIVE = Term("is", LIVE)
_IS_ACTIONABLE = Term("is", ACTIONABLE)


class QuerySelection(NamedTuple):
    """All dead letters that a query finds and that can be replayed or closed.

    query     finds exactly these
    narrowed  the original query also finds others
    reason    why they cannot be changed at once; empty if they can
    """

    query: str
    number: int
    narrowed: bool
    reason: str = ""


async def select_query(
    failures: Failures, text: str, known: Count | None = None, *, grouped: bool = False
) -> QuerySelection | None:
    """Return None if there is nothing to act on, or no query for it. `known` is the count of the query."""
    try:
        query = parse(text)
    except InvalidValueError:
        return None
    if grouped and not {term.key for term in query.terms} <= SAME_FOR_GROUPS:
        return None
    narrow, narrowed = _narrowed(text, query)
    count = known if known and not narrowed else await failures.count(narrow)
    if count.capped:
        reason = f"More than {MAX_CONCURRENT:,} match, the maximum for one action. Narrow the query"
        return QuerySelection(narrow, count.number, narrowed, reason)
    return QuerySelection(narrow, count.number, narrowed) if count.number else None


def _narrowed(text: str, query: Query) -> tuple[str, bool]:
    if set(letter_states(query)) <= set(ACTIONABLE):
        return text, False
    narrow = f"{text} is:open,exhausted"
    return (narrow, True) if len(narrow) <= MAX_QUERY_LENGTH else (text, False)


class ReplaySelection(NamedTuple):
    """What the dialog for a new replay is about.

    body    the request that gives the API the same selection
    number  how many can be replayed; capped at the maximum of one operation
    others  how many more are selected, and cannot be replayed now
    unsafe  how many of them, at most, may repeat an effect that is not safe to repeat
    lines   the dead letters themselves, if they are few
    title   of the failure group, if that is selected
    """

    body: Mapping[str, Any]
    number: Count
    others: int = 0
    unsafe: int = 0
    lines: Sequence[DeadLetterLine] = ()
    title: str = ""

    @property
    def one(self) -> DeadLetterLine | None:
        """The only dead letter that is selected."""
        alone = len(self.lines) == 1 and self.number.number + self.others == 1
        return self.lines[0] if alone else None


async def select_replay(
    failures: Failures, query: str | None, ids: Sequence[str], group: str | None
) -> ReplaySelection | None:
    """Return None if the request selects nothing yet."""
    given = [selected for selected in (query, ids, group) if selected]
    if len(given) > 1:
        raise InvalidValueError("pass only one of q, ids and group")
    if ids:
        return await _select_ids(failures, ids)
    if group:
        return await _select_group(failures, group)
    return await _select_query(failures, query) if query else None


async def _select_ids(failures: Failures, ids: Sequence[str]) -> ReplaySelection:
    lines = await failures.lines(ids)
    known = {line.id for line in lines}
    for letter_id in ids:
        if letter_id not in known:
            raise NotFoundError(f"found no dead letter {letter_id!r:.200}")
    replayable = [line for line in lines if line.state in ACTIONABLE]
    return ReplaySelection(
        {"ids": [line.id for line in lines]},
        Count(len(replayable), False),
        len(lines) - len(replayable),
        sum(line.effect == Effect.UNSAFE and bool(line.may_have_executed) for line in replayable),
        lines if len(lines) <= MAX_LISTED else (),
    )


async def _select_group(failures: Failures, fingerprint: str) -> ReplaySelection:
    group = (await failures.groups.view(fingerprint)).group
    query = Query((_IS_LIVE, Term("fp", (group.fingerprint,))))
    counted = await _counted(failures, query, {"group": group.fingerprint})
    return counted._replace(title=group.title)


async def _select_query(failures: Failures, text: str) -> ReplaySelection:
    """Leave out closed dead letters, unless the query names a state."""
    query = parse(text)
    if not any(term.key == "is" for term in query.terms):
        query = Query((*query.terms, _IS_LIVE))
    return await _counted(failures, query, {"query": str(query)})


async def _counted(failures: Failures, query: Query, body: Mapping[str, Any]) -> ReplaySelection:
    replayable = Query((*query.terms, _IS_ACTIONABLE))
    unsafe = Query((*replayable.terms, Term("effect", (Effect.UNSAFE,))))
    everything = await failures.count(str(query), most=MAX_ITEMS)
    number = await failures.count(str(replayable), most=MAX_ITEMS)
    risky = (await failures.count(str(unsafe))).number if number.number else 0
    lines = (
        (await failures.list(str(query), size=MAX_LISTED)).lines
        if 0 < everything.number <= MAX_LISTED
        else ()
    )
    return ReplaySelection(body, number, everything.number - number.number, risky, lines)
