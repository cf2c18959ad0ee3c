"""Further executions of projectors: which run projects an event now, instead of the one before.

An execution may follow another one only if that one has ended and has no live dead letter: an event is never
projected twice at once by the same projector. Lock the events first: retention removes unlocked ones only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.field import RunId
from redrive.model.stream import Projection
from redrive.policy.codec import encode
from redrive.store.database import Session
from redrive.store.statement import statements


class EventKey(NamedTuple):
    id: RunId
    org: str


class NextRun(NamedTuple):
    """The run that takes the place of `old_run_id` in a projection."""

    event_id: RunId
    projector: str
    version: int
    org: str
    old_run_id: RunId
    run_id: RunId


class ProjectionKey(NamedTuple):
    event_id: RunId
    projector: str
    version: int
    org: str


class ExpiredEvents(NamedTuple):
    """Events of a stream of these types that are older than `age` seconds."""

    org: str
    stream: str
    age: float
    types: Sequence[str]


_SQL = statements("event_runs", EventKey, NextRun, Projection, ProjectionKey)


class EventRuns:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def lock(self, session: Session, event_ids: Sequence[str], org: str) -> set[str]:
        """Lock events against retention in the caller's transaction. Return the ids that exist."""
        keys = [EventKey(event_id, org) for event_id in sorted(event_ids)]
        return {row[0] for row in await session.fetch_many(_SQL["lock"], keys)} if keys else set()

    async def runs(
        self, session: Session, event_ids: Sequence[str], projector: str, version: int, org: str
    ) -> dict[str, str]:
        """Return the run that projects each event, where there is one."""
        keys = [
            ProjectionKey(event_id=event_id, projector=projector, version=version, org=org)
            for event_id in event_ids
        ]
        rows = await session.fetch_many(_SQL["runs"], keys) if keys else []
        return {row[0]: row[1] for row in rows}

    async def begin(self, session: Session, projections: Sequence[Projection]) -> set[str]:
        """Store first projections. Return the runs of those that are new."""
        if not projections:
            return set()
        return {row[0] for row in await session.fetch_many(_SQL["begin"], projections)}

    async def follow(self, session: Session, runs: Sequence[NextRun]) -> set[str]:
        """Replace the runs of projections. Return the new runs of those whose former run has settled."""
        return {row[0] for row in await session.fetch_many(_SQL["follow"], runs)} if runs else set()

    async def remove_expired(self, expired: ExpiredEvents, most: int) -> int:
        """Remove old events without unfinished work, and their projections. Return how many were found."""
        parameters = {**expired._asdict(), "types": encode(list(expired.types)), "most": most}
        async with self._session.transaction() as session:
            found = [
                EventKey(row[0], expired.org) for row in await session.fetch(_SQL["expired"], parameters)
            ]
            if found:
                # Check again now that the events are locked: a replay may have started a run before.
                removed = await session.fetch_many(_SQL["remove"], found)
                gone = [EventKey(row[0], expired.org) for row in removed]
                if gone:
                    await session.fetch_many(_SQL["remove_projections"], gone)
            return len(found)

    async def types(self, org: str) -> list[str]:
        """Return the distinct types of the events of an organization."""
        return [row[0] for row in await self._session.fetch(_SQL["types"], {"org": org})]
