"""Translate a query over runs into disjoint branches of a statement that together cover it.

Ended runs have an index by workflow, queue and state; idle runs have one by queue, place, state and
workflow; runs in progress are few. A statement finds the distinct keys of an index by skipping from one to
the next, and reads the newest runs of each key that the query allows. It therefore reads few rows that it
does not return, and finds the runs of a small org, a rare workflow or a rare state as quickly as any other.
Terms on columns outside the keys are checked run by run. Selective keys, such as the id of a run, are looked
up in their index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redrive.model.query import Query, Term, Value
from redrive.model.run import ENDED_RUNS, LIVE_RUNS, RunPosition, RunState
from redrive.store.condition import RUN_COLUMNS, Writer, all_of

_RARE = ("id", "key", "correlation")
"""Selective keys: few runs share a value, and each key has an index."""

_ALWAYS = "1 = 1"
_IN_KEYS = ("workflow", "queue")
_IN_INDEXES = ("is", *_IN_KEYS, "since", "until")


class Branch(NamedTuple):
    """`name` is the SQL fragment; `keys` is its condition on index keys, `rows` its condition on runs."""

    name: str
    keys: str
    rows: str


HELD = "key.place = 'held'"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """`scans`: the query filters by a column outside the indexes, so it scans the runs."""

    branches: tuple[Branch, ...]
    parameters: Mapping[str, Any]
    scans: bool = False

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
        return cls(tuple(branches), writer.parameters, scans=any(map(_scans, query.terms)))


def possible_states(query: Query) -> set[RunState]:
    """Return the states that a matching run may have."""
    found = set(RunState)
    for term in query.terms:
        if term.key == "is":
            named = {state for value in term.values for state in _MEANINGS[value].states}
            found &= set(RunState) - _wholly(term.values) if term.negated else named
    return found


def _wholly(values: Sequence[Value]) -> set[RunState]:
    return {value for value in values if isinstance(value, RunState)}


def _scans(term: Term) -> bool:
    return term.key not in _IN_INDEXES or not _IN_NO_INDEX.isdisjoint(term.values)


def _is_rare(term: Term, key: str) -> bool:
    return term.key == key and not term.negated


def _looked_up(rare: Term, query: Query, writer: Writer) -> tuple[Branch, ...]:
    rows = all_of([_row_condition(term, writer) for term in query.terms])
    if rare.key != "correlation":
        return (Branch("_looked_up", _ALWAYS, rows),)
    # The index has only correlation ids that a caller set; for other runs the run id is looked up.
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
    """A value of `is:` as a condition; `known` is the weaker condition that an index key can answer."""

    condition: str
    states: tuple[RunState, ...]
    known: str | None = None


_BETWEEN_ATTEMPTS = "{of}state = 'RUNNING'"
_IN_NO_INDEX = frozenset({RunPosition.PARKED, RunPosition.REPLAYING, RunPosition.BLOCKED})

_MEANINGS: Mapping[Value, _Meaning] = {
    **{state: _Meaning(f"{{of}}state = '{state}'", (state,)) for state in RunState},
    RunPosition.READY: _Meaning("{of}place IN ('ready', 'alone')", LIVE_RUNS),
    RunPosition.WAITING: _Meaning("{of}place = 'waiting'", LIVE_RUNS),
    RunPosition.HELD: _Meaning("{of}place = 'held'", LIVE_RUNS),
    RunPosition.EXECUTING: _Meaning("{of}place = 'leased'", (RunState.RUNNING,)),
    RunPosition.RETRYING: _Meaning("{of}step_state = 'RETRYING'", (RunState.RUNNING,), _BETWEEN_ATTEMPTS),
    RunPosition.PARKED: _Meaning(
        "({of}place = 'waiting' AND {of}held_by IS NOT NULL)", LIVE_RUNS, "{of}place = 'waiting'"
    ),
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
    """Return conditions on index keys. They may be weaker than the term, so a negated one may give none."""
    if _is_known(term):
        return [_states(term, "key.")]
    if term.negated:
        return []
    conditions = [_MEANINGS[value].known or _MEANINGS[value].condition for value in term.values]
    return [f"({' OR '.join(conditions)})".replace("{of}", "key.")]
