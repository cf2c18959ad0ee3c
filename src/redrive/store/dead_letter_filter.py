"""A query over dead letters as a WHERE text with its parameters, for both databases.

A list must read its letters in order of time, without sorting them. So a query becomes disjoint branches that
together are the whole: one for each state, and for each fingerprint where the query names some. Each branch
walks along an index in the order of (created_at, id) and stops when it has enough. The index by state also
has the category, the workflow, the step and the queue: letters with other values are skipped without being
read. Letters in any state with something that is in no index are read by time, each of them once. Keys that
few letters have in common, such as the id of their run, are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from redrive.model.dead_letter import DeadLetterState, Prospect
from redrive.model.query import Query, Term, Who, letter_states
from redrive.store.condition import Writer, all_of, hidden_from_sqlite, is_text

MAX_BRANCHES = 24

_RARE = ("id", "run", "correlation", "assignee")
"""Keys that few letters have in common, with an index of their own."""

INDEXED = ("is", "since", "until", "fp", "category", "workflow", "step", "queue", *_RARE)
"""Keys whose columns are in an index that lists are read along."""

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
    def of(cls, query: Query, org: str) -> Filter:
        writer = Writer({"org": org})
        terms, states = _without_states(query), letter_states(query)
        conditions = [writer.condition(term) for term in terms]
        where = all_of(["org = :org", *_in_states(states), *conditions])
        rare = [term for term in terms if _is_rare(term)]
        if rare:
            return cls(where, tuple(_looked_up(rare, states, conditions, writer)), writer.parameters)
        along = next(filter(_is_walkable, terms), None)
        rest = [
            writer.condition(term, hidden_from_sqlite if term.key == "fp" else str)
            for term in terms
            if term is not along
        ]
        by_time = along is None and _are_all(states) and any(term.key not in INDEXED for term in terms)
        branches = () if by_time else tuple(_branches(along, states, rest, writer))
        return cls(where, branches or (where,), writer.parameters)


def about_states(query: Query) -> tuple[Term, ...]:
    return tuple(term for term in query.terms if term.key == "is")


def _without_states(query: Query) -> list[Term]:
    return [term for term in query.terms if term.key != "is"]


def _looked_up(
    rare: Sequence[Term], states: States, conditions: Sequence[str], writer: Writer
) -> Iterator[str]:
    """Written so that no index by state or time can be taken instead."""
    org = "org" if {term.key for term in rare} == {"assignee"} else hidden_from_sqlite("org")
    found = all_of([f"{org} = :org", *_in_states(states, hidden_from_sqlite("state")), *conditions])
    if any(term.key != "correlation" for term in rare):
        yield found
        return
    # Only ids that somebody has given are in the index: the others are those of their runs.
    own = writer.condition(rare[0]._replace(key="run"))
    yield f"correlation_id <> {{text:run_id}} AND {found}"
    yield f"correlation_id = {{text:run_id}} AND {own} AND {found}"


def _branches(along: Term | None, states: States, rest: Sequence[str], writer: Writer) -> Iterator[str]:
    """None at all when they would be too many."""
    values = [""] if along is None else along.values
    if len(values) * len(states) > MAX_BRANCHES:
        return
    for value, state in product(values, written_states(states)):
        first = [] if along is None else [writer.condition(along._replace(values=(value,)))]
        yield all_of(["org = :org", *first, state, *rest])


def _is_walkable(term: Term) -> bool:
    """Whole fingerprints: their index has the letters of each state in order of time."""
    return term.key == "fp" and not term.negated and all(map(is_text, term.values))


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
