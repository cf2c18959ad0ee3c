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

from redrive.model.dead_letter import DeadLetterState
from redrive.model.query import Query, Term, Who
from redrive.store.condition import Writer, all_of, is_text

MOST_BRANCHES = 24

_RARE = ("id", "run", "correlation", "assignee")
"""Keys that few letters have in common, with an index of their own."""

_WALKED = ("fp", "step", "workflow", "category", "queue")
"""Keys with an index by state and time, the one that tells most first."""

_NEVER = "1 = 0"


@dataclass(frozen=True, slots=True)
class Filter:
    """`where` is the whole condition, the org included; `branches` are disjoint parts of it."""

    where: str
    branches: tuple[str, ...]
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, query: Query, org: str) -> Filter:
        writer = Writer({"org": org})
        terms = [term for term in query.terms if term.key != "is"]
        states = _states(query)
        conditions = [writer.condition(term) for term in terms]
        where = all_of(["org = :org", *_in_states(states), *conditions])
        rare = {term.key for term in terms if _is_rare(term)}
        if rare:
            return cls(where, (_looked_up(rare, states, conditions),), writer.parameters)
        branches = tuple(_branches(terms, states, conditions, writer))
        return cls(where, branches or (where,), writer.parameters)


def _looked_up(rare: set[str], states: Sequence[str], conditions: Sequence[str]) -> str:
    """Written so that no index by state or time can be taken instead."""
    org = "org || ''" if "run" in rare else "org"
    return all_of([f"{org} = :org", *_in_states(states, "state || ''"), *conditions])


def _branches(
    terms: Sequence[Term], states: Sequence[str], conditions: Sequence[str], writer: Writer
) -> Iterator[str]:
    """None at all when one index serves the whole, or when they would be too many."""
    walked = _walked(terms)
    values = [[f"state = '{state}'"] for state in states]
    rest = list(conditions)
    if walked is not None:
        place = terms.index(walked)
        rest.pop(place)
        values = [
            [writer.condition(walked._replace(values=(value,))), *state]
            for value, state in product(walked.values, values)
        ]
    elif len(states) == len(DeadLetterState):
        return
    if len(values) <= MOST_BRANCHES:
        yield from (all_of(["org = :org", *value, *rest]) for value in values)


def _walked(terms: Sequence[Term]) -> Term | None:
    usable = [term for term in terms if not term.negated and all(is_text(value) for value in term.values)]
    found = [term for key in _WALKED for term in usable if term.key == key]
    return found[0] if found else None


def _is_rare(term: Term) -> bool:
    return term.key in _RARE and not term.negated and Who.NOBODY not in term.values


def _states(query: Query) -> list[str]:
    """Those that fulfil all its terms about states."""
    named = [term for term in query.terms if term.key == "is"]
    return [
        str(state)
        for state in DeadLetterState
        if all((state in term.values) != term.negated for term in named)
    ]


def _in_states(states: Sequence[str], column: str = "state") -> list[str]:
    """As literals: there are few of them, and the database knows how many letters are in each."""
    if len(states) == len(DeadLetterState):
        return []
    listed = ", ".join(f"'{state}'" for state in states)
    return [f"{column} IN ({listed})" if states else _NEVER]
