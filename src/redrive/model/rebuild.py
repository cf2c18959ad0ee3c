"""A rebuild: the stored events of a stream through one projector again, in the order of the stream."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.fact import StoredFact
from redrive.model.field import BigInt, Instant, JsonList, RunId
from redrive.model.replay import OperationState
from redrive.model.row import Row

FIRST = (-1, "0" * 32, "0" * 32)
"""Before the first event of a stream."""


class EventPlace(NamedTuple):
    """The place of an event in its stream."""

    generation: int
    position: str
    event_id: str


class Rebuild(Row, frozen=True, kw_only=True):
    """A rebuild and its progress.

    types            only events of these types; empty: every type that the projector wants
    since            only events that were stored from then on
    until            only events that were stored before then
    only_missing     only events that this version of the projector has never processed
    rate             events per second; None: as fast as workers execute them
    max_failures     stop when the projector has this number of new dead letters
    total            how many events the stream had when the rebuild started
    seen             how many events it has read
    started          how many executions it has started
    skipped          how many events it left out: their projection is unfinished or has a live dead letter
    resumed_at       when it was started or resumed; earlier dead letters do not count
    stopped_because  why it stopped automatically
    """

    id: RunId
    org: str
    stream: str
    projector: str
    version: int
    state: OperationState
    types: JsonList
    since: Instant | None
    until: Instant | None
    only_missing: bool
    rate: float | None
    max_failures: int
    total: BigInt
    seen: BigInt
    started: BigInt
    skipped: BigInt
    reason: str
    created_by: str
    created_at: Instant
    updated_at: Instant
    resumed_at: Instant
    released_at: Instant
    ended_at: Instant | None
    stopped_because: StoredFact | None
    generation: int
    position: RunId
    event_id: RunId
    end_generation: int
    end_position: RunId
    end_event_id: RunId

    @property
    def task(self) -> str:
        """The name of the projector's task, which is also its workflow."""
        return f"{self.stream}:{self.projector}:v{self.version}"

    @property
    def place(self) -> EventPlace:
        """The last event that it has read."""
        return EventPlace(self.generation, self.position, self.event_id)

    @property
    def end(self) -> EventPlace:
        """The last event that it will read."""
        return EventPlace(self.end_generation, self.end_position, self.end_event_id)
