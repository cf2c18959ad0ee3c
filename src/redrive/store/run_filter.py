"""A query over runs as branches of a statement, disjoint ones that together are the whole.

Runs that have ended lie in one index, in order of workflow, queue and state, idle ones in another, in order
of queue, place, state and workflow; those in flight are few. The keys of an index are what occurs in it: they
are found by leaping from one to the next, and for each that the query allows its newest runs are read. So
little is read that is not shown, and a small org, a rare workflow, a rare state are found as quickly as any
other. What is in no key is looked at run by run. What few runs have in common, as their id, is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redrive.model.query import Query, Term, Value
from redrive.model.run import ENDED_RUNS, LIVE_RUNS, RunPosition, RunState
from redrive.store.condition import RUN_COLUMNS, Writer, all_of

_RARE = ("id", "key", "correlation")
"""Keys that few runs have in common, with an index of their own."""

_ALWAYS = "1 = 1"
_IN_KEYS = ("workflow", "queue")
_IN_INDEXES = ("is", *_IN_KEYS, "since", "until")


class Branch(NamedTuple):
    """`name` is that of its text; `keys` is asked of what occurs, `rows` of the runs themselves."""

    name: str
    keys: str
    rows: str


HELD = "key.place = 'held'"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """`looks`: it asks for something that no index tells, so that run after run is looked at."""

    branches: tuple[Branch, ...]
    parameters: Mapping[str, Any]
    looks: bool = False

    @classmethod
    def of(cls, query: Query, org: str) -> RunFilter:
        writer = Writer({"org": org}, RUN_COLUMNS)
        states = possible_states(query)
        rare = next((term for key in _RARE for term in query.terms if _is_rare(term, key)), None)
        if rare is not None:
            return cls(_looked_up(rare, query, writer), writer.parameters)
        wanted = {
            "_over": states & set(ENDED_RUNS),
            "_idle": states & set(LIVE_RUNS),
            "_executing": states & {RunState.RUNNING},
        }
        branches = [_branch(name, query, writer) for name, those in wanted.items() if those]
        return cls(tuple(branches), writer.parameters, looks=any(map(_looks, query.terms)))


def possible_states(query: Query) -> set[RunState]:
    """Those in which a run may be that fulfils the query."""
    found = set(RunState)
    for term in query.terms:
        if term.key == "is":
            named = {state for value in term.values for state in _MEANINGS[value].states}
            found &= set(RunState) - _wholly(term.values) if term.negated else named
    return found


def _wholly(values: Sequence[Value]) -> set[RunState]:
    return {value for value in values if isinstance(value, RunState)}


def _looks(term: Term) -> bool:
    return term.key not in _IN_INDEXES or not _IN_NO_INDEX.isdisjoint(term.values)


def _is_rare(term: Term, key: str) -> bool:
    return term.key == key and not term.negated


def _looked_up(rare: Term, query: Query, writer: Writer) -> tuple[Branch, ...]:
    rows = all_of([_row_condition(term, writer) for term in query.terms])
    if rare.key != "correlation":
        return (Branch("_looked_up", _ALWAYS, rows),)
    # Only ids that were given are in the index: the others are those of their runs.
    own = writer.condition(rare._replace(key="id"))
    given = Branch("_correlated", _ALWAYS, f"given_correlation_id IS NOT NULL AND {rows}")
    return (given, Branch("_looked_up", _ALWAYS, f"given_correlation_id IS NULL AND {own} AND {rows}"))


def _branch(name: str, query: Query, writer: Writer) -> Branch:
    keys, rows = [_ALWAYS], [_ALWAYS]
    for term in query.terms:
        if term.key == "is":
            keys += _key_states(term)
            rows += [] if _is_known(term) else [_states(term, "")]
        elif term.key in _IN_KEYS:
            keys.append(writer.condition(term, _of_key))
        else:
            rows.append(writer.condition(term))
    return Branch(name, all_of(keys), all_of(rows))


def _row_condition(term: Term, writer: Writer) -> str:
    return _states(term, "") if term.key == "is" else writer.condition(term)


def _of_key(column: str) -> str:
    return f"key.{column}"


class _Meaning(NamedTuple):
    """A word about states as a condition; `known` is what is known of it without looking at the run."""

    condition: str
    states: tuple[RunState, ...]
    known: str | None = None


_BETWEEN_ATTEMPTS = "{of}state = 'RUNNING'"
_IN_NO_INDEX = frozenset({RunPosition.REPLAYING, RunPosition.BLOCKED})

_MEANINGS: Mapping[Value, _Meaning] = {
    **{state: _Meaning(f"{{of}}state = '{state}'", (state,)) for state in RunState},
    RunPosition.READY: _Meaning("{of}place IN ('ready', 'alone')", LIVE_RUNS),
    RunPosition.WAITING: _Meaning("{of}place = 'waiting'", LIVE_RUNS),
    RunPosition.HELD: _Meaning("{of}place = 'held'", LIVE_RUNS),
    RunPosition.EXECUTING: _Meaning("{of}place = 'leased'", (RunState.RUNNING,)),
    RunPosition.RETRYING: _Meaning("{of}step_state = 'RETRYING'", (RunState.RUNNING,), _BETWEEN_ATTEMPTS),
    RunPosition.REPLAYING: _Meaning(
        "({of}replays > 0 AND {of}state = 'RUNNING')", (RunState.RUNNING,), _BETWEEN_ATTEMPTS
    ),
    RunPosition.BLOCKED: _Meaning(
        "{of}step_state = 'BLOCKED'", (RunState.DLQ_PENDING,), "{of}state = 'DLQ_PENDING'"
    ),
}


def _is_known(term: Term) -> bool:
    return all(_MEANINGS[value].known is None for value in term.values)


def _states(term: Term, of: str) -> str:
    either = " OR ".join(_MEANINGS[value].condition for value in term.values).replace("{of}", of)
    return f"NOT ({either})" if term.negated else f"({either})"


def _key_states(term: Term) -> list[str]:
    """As much as can be told without looking at the runs; of what is not, nothing follows from a minus."""
    if _is_known(term):
        return [_states(term, "key.")]
    if term.negated:
        return []
    told = [_MEANINGS[value].known or _MEANINGS[value].condition for value in term.values]
    return [f"({' OR '.join(told)})".replace("{of}", "key.")]
