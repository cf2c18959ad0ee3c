"""A query over dead letters as a WHERE text with its parameters, for both databases.

What was asked for newest first must not be sorted, and what is in no index must not be looked at. So a query
is taken apart into branches, disjoint ones that together are the whole: one for each state and each value of
one indexed column. Each of them walks along an index in the order of (created_at, id) and stops when it has
enough. Something that few letters have, such as the id of their run, needs no branches: it is looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from redrive.model.dead_letter import DeadLetterState, Prospect
from redrive.model.query import Query, Term, Who, letter_states
from redrive.store.condition import Writer, all_of, hidden_from_both, hidden_from_sqlite, is_text

MAX_BRANCHES = 24

_RARE = ("id", "run", "correlation", "assignee")
"""Keys that few letters have in common, with an index of their own."""

_WALKED = ("fp", "step", "workflow", "category", "queue")
"""Keys with an index by state and time, the one that tells most first."""

NEVER = "1 = 0"

States = Mapping[DeadLetterState, Prospect | None]
"""States, each with the prospect that its letters must have, if any."""

PROSPECTS: Mapping[Prospect, str] = {
    Prospect.SCHEDULED: "next_redrive_at IS NOT NULL",
    Prospect.UNSCHEDULED: "next_redrive_at IS NULL",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """`where` is the whole condition, the org included; `branches` are disjoint parts of it."""

    where: str
    branches: tuple[str, ...]
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, query: Query, org: str, walked: Term | None = None) -> Filter:
        """`walked` is one of the `walkable` terms: one that few letters fulfil, if that is known."""
        writer = Writer({"org": org})
        terms, states = _without_states(query), letter_states(query)
        conditions = [writer.condition(term) for term in terms]
        where = all_of(["org = :org", *_in_states(states), *conditions])
        rare = {term.key for term in terms if _is_rare(term)}
        if rare:
            return cls(where, (_looked_up(rare, states, conditions),), writer.parameters)
        spelled = hidden_from_both if walked else hidden_from_sqlite
        along = walked or next(iter(walkable(query)), None)
        rest = [
            writer.condition(term, spelled if term.key in _WALKED else str)
            for term in terms
            if term is not along
        ]
        branches = tuple(_branches(along, states, rest, writer))
        return cls(where, branches or (where,), writer.parameters)


def walkable(query: Query) -> list[Term]:
    """The terms along which the query can be walked in order of time, the likeliest first; one will do."""
    terms = [] if any(map(_is_rare, query.terms)) else query.terms
    usable = [term for term in terms if not term.negated and all(map(is_text, term.values))]
    return [term for key in _WALKED for term in usable if term.key == key]


def about_states(query: Query) -> tuple[Term, ...]:
    return tuple(term for term in query.terms if term.key == "is")


def _without_states(query: Query) -> list[Term]:
    return [term for term in query.terms if term.key != "is"]


def _looked_up(rare: set[str], states: States, conditions: Sequence[str]) -> str:
    """Written so that no index by state or time can be taken instead."""
    org = "org" if rare == {"assignee"} else hidden_from_sqlite("org")
    return all_of([f"{org} = :org", *_in_states(states, hidden_from_sqlite("state")), *conditions])


def _branches(along: Term | None, states: States, rest: Sequence[str], writer: Writer) -> Iterator[str]:
    """None at all when one index serves the whole, or when they would be too many."""
    values = [""] if along is None else along.values
    if (along is None and _are_all(states)) or len(values) * len(states) > MAX_BRANCHES:
        return
    for value, state in product(values, written_states(states)):
        first = [] if along is None else [writer.condition(along._replace(values=(value,)))]
        yield all_of(["org = :org", *first, state, *rest])


def _is_rare(term: Term) -> bool:
    return term.key in _RARE and not term.negated and Who.NOBODY not in term.values


def written_states(states: States, column: str = "state") -> list[str]:
    """A condition for each of them."""
    return [
        f"{column} = '{state}'" + (f" AND {PROSPECTS[prospect]}" if prospect else "")
        for state, prospect in states.items()
    ]


def _are_all(states: States) -> bool:
    return len(states) == len(DeadLetterState) and not any(states.values())


def _in_states(states: States, column: str = "state") -> list[str]:
    """As literals: there are few of them, and the database knows how many letters are in each."""
    if _are_all(states):
        return []
    if any(states.values()):
        return [f"({' OR '.join(written_states(states, column))})"]
    listed = ", ".join(f"'{state}'" for state in states)
    return [f"{column} IN ({listed})" if states else NEVER]
