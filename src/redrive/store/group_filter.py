"""A query over failure groups as branches of a statement, disjoint ones that together are the whole.

There is one for each state that is stored, if not all are wanted: each walks along the index of its state and
time. Stored is not what counts: a group whose time to be ignored is over is open, though nobody has written
it yet. Groups are some thousands, so everything else is looked at group by group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from redrive.model.dead_letter import Prospect
from redrive.model.failure_group import REGRESSED, GroupState
from redrive.model.query import Query, Term, Value, letter_states
from redrive.store.condition import GROUP_COLUMNS, GROUP_TEXTS, Writer, all_of
from redrive.store.filter import NEVER, about_states


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """
    letters   states as SQL writes them
    prospect  whether open dead letters are meant that will be redriven, or those that will not

    If there are any of these, one dead letter must be so.
    """

    branches: tuple[str, ...]
    parameters: Mapping[str, Any]
    letters: str = ""
    prospect: Prospect | None = None

    @classmethod
    def of(cls, query: Query, org: str) -> GroupFilter:
        writer = Writer({"org": org}, GROUP_COLUMNS, GROUP_TEXTS)
        where = all_of(["org = :org", *(_condition(term, writer) for term in _own(query))])
        return cls(tuple(_branches(query, where)) or (NEVER,), writer.parameters, *_letters(query))


def _branches(query: Query, where: str) -> Iterator[str]:
    states = _stored(query) if letter_states(query) else set()
    if len(states) == len(GroupState):
        yield where
    else:
        yield from (f"state = '{state}' AND {where}" for state in sorted(states))


def _own(query: Query) -> list[Term]:
    """What asks about the group itself."""
    return [term for term in query.terms if term.key != "is"]


def _letters(query: Query) -> tuple[str, Prospect | None]:
    """`is:any` means that there is one."""
    states = letter_states(query) if about_states(query) else {}
    whole = ", ".join(f"'{state}'" for state, prospect in states.items() if prospect is None)
    return whole, next((prospect for prospect in states.values() if prospect is not None), None)


def _condition(term: Term, writer: Writer) -> str:
    if term.key != "group":
        return writer.condition(term)
    either = " OR ".join(_MEANINGS[value].condition for value in term.values)
    return f"(({either}) IS NOT TRUE)" if term.negated else f"({either})"


def _stored(query: Query) -> set[GroupState]:
    """The states in which groups may be stored that fulfil the query; nothing follows from a minus."""
    found = set(GroupState)
    for term in query.terms:
        if term.key == "group" and not term.negated:
            found &= {state for value in term.values for state in _MEANINGS[value].stored}
    return found


class _Meaning(NamedTuple):
    """A word about the state of a group as a condition, and the states in which it may be stored."""

    condition: str
    stored: tuple[GroupState, ...]


_OPEN = "(state = 'OPEN' OR (state = 'IGNORED' AND ignored_until <= :now))"
_IGNORED = "(state = 'IGNORED' AND (ignored_until IS NULL OR ignored_until > :now))"

_MEANINGS: Mapping[Value, _Meaning] = {
    "open": _Meaning(_OPEN, (GroupState.OPEN, GroupState.IGNORED)),
    "acknowledged": _Meaning("state = 'ACKNOWLEDGED'", (GroupState.ACKNOWLEDGED,)),
    "resolved": _Meaning("state = 'RESOLVED'", (GroupState.RESOLVED,)),
    "ignored": _Meaning(_IGNORED, (GroupState.IGNORED,)),
    REGRESSED: _Meaning(f"(regressed_at IS NOT NULL AND {_OPEN})", (GroupState.OPEN, GroupState.IGNORED)),
}
