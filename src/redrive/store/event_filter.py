"""Translate a query over events into SQL for both databases.

Terms about projections, `is` and `projector`, describe one projection that the event must have. Those with
states that few projections are in are answered from the runs in these states; other ones are checked event by
event, newest first. The rest filters the events: by id, dedupe key, type, user and time with an index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from redrive.model.query import Query, Term
from redrive.model.stream import UNFINISHED_PROJECTIONS, ProjectionStatus
from redrive.store.condition import EVENT_COLUMNS, Writer, all_of, hidden_from_sqlite
from redrive.store.statement import template

_ABOUT_PROJECTIONS = ("is", "projector")
_UNINDEXED = ("stream", "source")
"""SQLite, which has no statistics, would sort all events of a stream instead of reading the newest ones."""
_ALWAYS = "1 = 1"
_NEVER = "1 = 0"
_UNDER_WAY = "run.state IN ('PENDING', 'RUNNING')"

MEANINGS: Mapping[ProjectionStatus, str] = MappingProxyType(
    {
        ProjectionStatus.WAITING: "projection.waits = 1 AND run.id IS NULL",
        ProjectionStatus.QUEUED: f"{_UNDER_WAY} AND run.failures = 0 AND run.attempt = 0",
        ProjectionStatus.RUNNING: f"{_UNDER_WAY} AND run.failures = 0 AND run.attempt > 0",
        ProjectionStatus.RETRYING: f"{_UNDER_WAY} AND run.failures > 0",
        ProjectionStatus.SUCCEEDED: "run.state IN ('SUCCESS', 'PARTIAL')",
        ProjectionStatus.FAILED: "run.state = 'FAILED'",
        ProjectionStatus.DEAD: "run.state = 'DLQ_PENDING'",
        ProjectionStatus.CANCELLED: "run.state = 'CANCELLED'",
        ProjectionStatus.REMOVED: "projection.waits = 0 AND run.id IS NULL",
    }
)
"""Each state as a condition on a projection and its run, which may not exist."""
_ENDED = MappingProxyType(
    {
        ProjectionStatus.FAILED: "FAILED",
        ProjectionStatus.DEAD: "DLQ_PENDING",
        ProjectionStatus.CANCELLED: "CANCELLED",
    }
)
_WITH_UNFINISHED_RUN = frozenset(UNFINISHED_PROJECTIONS) - {ProjectionStatus.WAITING}
_COMMON = frozenset({ProjectionStatus.SUCCEEDED, ProjectionStatus.REMOVED})
"""States that most projections end in."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """`where` is the condition on events, `projections` the one on the projection that they must have.

    statuses  the states that the projection may have; None: the query does not say
    scans     the query may have to read many events to find few
    """

    where: str
    projections: str
    statuses: frozenset[ProjectionStatus] | None
    parameters: Mapping[str, Any]
    scans: bool = False

    @classmethod
    def of(cls, query: Query, org: str) -> EventFilter:
        writer = Writer({"org": org}, EVENT_COLUMNS)
        events = [term for term in query.terms if term.key not in _ABOUT_PROJECTIONS]
        projectors = [term for term in query.terms if term.key == "projector"]
        states = [term for term in query.terms if term.key == "is"]
        return cls(
            where=all_of(["event.org = :org", *(_condition(term, writer) for term in events)]),
            projections=all_of([_ALWAYS, *(writer.condition(term) for term in projectors)]),
            statuses=_statuses(states) if states or projectors else None,
            parameters=writer.parameters,
            scans=any(term.negated or term.key in _UNINDEXED for term in events),
        )

    @property
    def is_selective(self) -> bool:
        """Whether the runs in the wanted states, which are few, lead to the events."""
        return self.statuses is not None and self.statuses.isdisjoint(_COMMON)

    @property
    def status(self) -> str:
        """The condition on the state of the projection."""
        if self.statuses is None or len(self.statuses) == len(ProjectionStatus):
            return _ALWAYS
        return _either([MEANINGS[status] for status in ProjectionStatus if status in self.statuses])

    def source(self, *, postgres: bool) -> str:
        """Return a query for the projections in the wanted states, if it is selective."""
        statuses = self.statuses or frozenset()
        part = partial(template, "event_listing", postgres=postgres)
        found = [part("_waiting")] if ProjectionStatus.WAITING in statuses else []
        ended = ", ".join(f"'{state}'" for status, state in _ENDED.items() if status in statuses)
        runs = [part("_ended_runs").replace("{states}", ended)] if ended else []
        if not statuses.isdisjoint(_WITH_UNFINISHED_RUN):
            runs.append(part("_unfinished_runs"))
        if runs:
            text = part("_of_runs").replace("{runs}", " UNION ALL ".join(runs))
            found.append(text.replace("{status}", self.status))
        return " UNION ALL ".join(found or [part("_nothing")]).replace("{projections}", self.projections)


def _condition(term: Term, writer: Writer) -> str:
    return writer.condition(term, hidden_from_sqlite if term.key in _UNINDEXED else str)


def _statuses(terms: list[Term]) -> frozenset[ProjectionStatus]:
    found = frozenset(ProjectionStatus)
    for term in terms:
        named = frozenset(ProjectionStatus(str(value)) for value in term.values)
        found = found - named if term.negated else found & named
    return found


def _either(conditions: list[str]) -> str:
    return f"({' OR '.join(f'({condition})' for condition in conditions)})" if conditions else _NEVER
