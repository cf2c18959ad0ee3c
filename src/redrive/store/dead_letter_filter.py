"""Translate a query over dead letters into WHERE conditions with parameters, for both databases.

A list must read dead letters in order of time without sorting them. A query therefore becomes disjoint
branches that together cover it: one per state, and per fingerprint if the query names fingerprints. Each
branch scans an index in the order of (created_at, id) and stops at the page size. The index by state also
contains the category, the workflow, the step and the queue, so that rows with other values are skipped
without being read. A query for all states that also filters by an unindexed column scans by time and reads
each dead letter once. Selective keys, such as the id of a run, are looked up in their index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from redrive.model.dead_letter import DeadLetterState, Prospect
from redrive.model.query import Query, Term, Who, letter_states
from redrive.store.condition import Writer, all_of, hidden_from_sqlite, is_text
from redrive.store.statement import template

MAX_BRANCHES = 24

_RARE = ("id", "run", "correlation", "assignee")
"""Selective keys: few dead letters share a value, and each key has an index."""

INDEXED = ("is", "since", "until", "fp", "category", "workflow", "step", "queue", *_RARE)
"""Keys whose columns are in an index that lists scan."""

NEVER = "1 = 0"

States = Mapping[DeadLetterState, Prospect | None]
"""States, each with the redrive prospect that its dead letters must have, if any."""

PROSPECTS: Mapping[Prospect, Sequence[str]] = {
    Prospect.SCHEDULED: (" AND next_redrive_at IS NOT NULL AND id NOT IN ({_stuck_ids})",),
    Prospect.UNSCHEDULED: (" AND next_redrive_at IS NULL", " AND id IN ({_stuck_ids})"),
}
"""Disjoint conditions of each prospect, to append to that of the state. The few stuck ids are read once."""


@dataclass(frozen=True, slots=True)
class Filter:
    """`where` is the whole condition, including the org; `branches` are its disjoint parts."""

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
    """Write conditions for selective keys so that the planner cannot choose an index by state or time."""
    org = "org" if {term.key for term in rare} == {"assignee"} else hidden_from_sqlite("org")
    found = all_of([f"{org} = :org", *_in_states(states, hidden_from_sqlite("state")), *conditions])
    if any(term.key != "correlation" for term in rare):
        yield found
        return
    # The index has only correlation ids that differ from the run id; the second branch finds the rest.
    own = writer.condition(rare[0]._replace(key="run"))
    yield f"correlation_id <> {{text:run_id}} AND {found}"
    yield f"correlation_id = {{text:run_id}} AND {own} AND {found}"


def _branches(along: Term | None, states: States, rest: Sequence[str], writer: Writer) -> Iterator[str]:
    """Yield the branches; none if there would be more than MAX_BRANCHES."""
    values = [""] if along is None else along.values
    conditions = state_conditions(states)
    if len(values) * len(conditions) > MAX_BRANCHES:
        return
    for value, state in product(values, conditions):
        first = [] if along is None else [writer.condition(along._replace(values=(value,)))]
        yield all_of(["org = :org", *first, state, *rest])


def _is_walkable(term: Term) -> bool:
    """Return whether a term names whole fingerprints, whose index is ordered by state and time."""
    return term.key == "fp" and not term.negated and all(map(is_text, term.values))


def _is_rare(term: Term) -> bool:
    return term.key in _RARE and not term.negated and Who.NOBODY not in term.values


def state_conditions(states: States, column: str = "state") -> list[str]:
    """Write disjoint conditions for the states: one per state, or those of its prospect."""
    stuck_ids = template("dead_letters", "_stuck_ids")
    return [
        f"{column} = '{state}'{more.replace('{_stuck_ids}', stuck_ids)}"
        for state, prospect in states.items()
        for more in (PROSPECTS[prospect] if prospect else ("",))
    ]


def _are_all(states: States) -> bool:
    return len(states) == len(DeadLetterState) and not any(states.values())


def _in_states(states: States, column: str = "state") -> list[str]:
    """Write states as literals: there are few, and the planner has statistics about each."""
    if _are_all(states):
        return []
    if any(states.values()):
        return [f"({' OR '.join(state_conditions(states, column))})"]
    listed = ", ".join(f"'{state}'" for state in states)
    return [f"{column} IN ({listed})" if states else NEVER]
