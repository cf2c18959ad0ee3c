"""Streams: events that other services publish, stored once, and what projects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from redrive.model.fact import Fact
from redrive.model.field import BigInt, Instant, RunId
from redrive.model.row import Row
from redrive.model.run import RunState

RECORDED = 0
"""The generation of events that the application recorded itself. Those of entries have numbers from 1 on."""
_DIGITS = 16
MAX_PART = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, as a stream stores it and a projector receives it.

    type         what happened, such as "order.paid"
    payload      its data: any JSON value
    dedupe_key   the same for every delivery of the event; a stream stores one event per key
    source       the service that published it
    user         the user whom it concerns
    occurred_at  when it happened, in seconds since 1970
    org          the organization that owns it; None: the organization of the stream

    The store sets the other fields:

    id           the id of the stored event
    stream       the name of the stream
    message_id   the id of the Redis entry; None if the application recorded the event itself
    stored_at    when it was stored, in seconds since 1970
    """

    type: str
    payload: Any = None
    dedupe_key: str = ""
    source: str | None = None
    user: str | None = None
    occurred_at: float | None = None
    org: str | None = None
    id: str = ""
    stream: str = ""
    message_id: str | None = None
    stored_at: float = 0.0


class StreamPosition(NamedTuple):
    """The id of an entry of a Redis stream: milliseconds and a sequence number, both of 64 bits."""

    milliseconds: int
    sequence: int

    @property
    def text(self) -> str:
        """32 hexadecimal digits, which sort like positions."""
        return f"{self.milliseconds:0{_DIGITS}x}{self.sequence:0{_DIGITS}x}"

    @property
    def message_id(self) -> str:
        return f"{self.milliseconds}-{self.sequence}"

    @property
    def next(self) -> StreamPosition:
        if self.sequence < MAX_PART:
            return StreamPosition(self.milliseconds, self.sequence + 1)
        return StreamPosition(self.milliseconds + 1, 0)

    @property
    def previous(self) -> StreamPosition:
        if self.sequence > 0:
            return StreamPosition(self.milliseconds, self.sequence - 1)
        return StreamPosition(max(0, self.milliseconds - 1), MAX_PART)


START = StreamPosition(0, 0)
"""Before the first entry: Redis accepts no entry with this id."""


def position_of(message_id: str) -> StreamPosition:
    """Parse the id of an entry: "1700000000000-0"."""
    milliseconds, _, sequence = message_id.partition("-")
    return StreamPosition(int(milliseconds), int(sequence or 0))


def read_position(text: str) -> StreamPosition:
    """Read a stored position."""
    return StreamPosition(int(text[:_DIGITS], 16), int(text[_DIGITS:], 16))


class StoredEvent(Row, frozen=True, kw_only=True):
    """The row of an event. `payload` is JSON text, encrypted if the application has a key."""

    id: RunId
    org: str
    stream: str
    type: str
    source: str | None
    user_id: str | None
    dedupe_key: str
    generation: int
    position: RunId
    payload: str
    occurred_at: Instant | None
    stored_at: Instant

    @property
    def message_id(self) -> str | None:
        return None if self.generation == RECORDED else read_position(self.position).message_id


class EventLine(Row, frozen=True, kw_only=True):
    """A stored event in a list: without its payload."""

    id: RunId
    stream: str
    type: str
    source: str | None
    user_id: str | None
    dedupe_key: str
    generation: int
    position: RunId
    occurred_at: Instant | None
    stored_at: Instant

    @property
    def message_id(self) -> str | None:
        return None if self.generation == RECORDED else read_position(self.position).message_id


class Projection(Row, frozen=True, kw_only=True):
    """Which run projects an event. While it `waits`, the run is not stored yet."""

    event_id: RunId
    projector: str
    version: int
    org: str
    stream: str
    run_id: RunId
    waits: int


class ProjectionStatus(StrEnum):
    """The state of the execution of a projector for one event.

    waiting    an earlier entry of the stream is undecided, so the run is not in its queue yet
    dead       the run failed permanently and has a live dead letter
    removed    the run finished and was removed after the retention period
    """

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    REMOVED = "removed"


UNFINISHED_PROJECTIONS = (
    ProjectionStatus.WAITING,
    ProjectionStatus.QUEUED,
    ProjectionStatus.RUNNING,
    ProjectionStatus.RETRYING,
)


class ProjectionRecord(NamedTuple):
    """One execution of a projector: its projection, joined with its run."""

    event_id: str
    projector: str
    version: int
    run_id: str
    status: ProjectionStatus
    attempt: int
    error: str | None
    started_at: Instant | None
    completed_at: Instant | None


class ProjectionRow(Row, frozen=True, kw_only=True):
    """A projection with the columns of its run, which are None if the run does not exist."""

    event_id: RunId
    projector: str
    version: int
    run_id: RunId
    waits: int
    state: RunState | None
    attempt: int | None
    failures: int | None
    started_at: Instant | None
    ended_at: Instant | None
    error_type: str | None
    message: str | None

    def record(self) -> ProjectionRecord:
        failed = self.state not in (None, RunState.SUCCESS) and self.error_type is not None
        return ProjectionRecord(
            event_id=self.event_id,
            projector=self.projector,
            version=self.version,
            run_id=self.run_id,
            status=self._status(),
            attempt=self.attempt or 0,
            error=f"{self.error_type}: {self.message}" if failed else None,
            started_at=self.started_at,
            completed_at=self.ended_at,
        )

    def _status(self) -> ProjectionStatus:
        if self.state is None:
            return ProjectionStatus.WAITING if self.waits else ProjectionStatus.REMOVED
        if self.state in (RunState.PENDING, RunState.RUNNING):
            if self.failures:
                return ProjectionStatus.RETRYING
            return ProjectionStatus.RUNNING if self.attempt else ProjectionStatus.QUEUED
        return _ENDED[self.state]


_ENDED = {
    RunState.SUCCESS: ProjectionStatus.SUCCEEDED,
    RunState.PARTIAL: ProjectionStatus.SUCCEEDED,
    RunState.FAILED: ProjectionStatus.FAILED,
    RunState.DLQ_PENDING: ProjectionStatus.DEAD,
    RunState.CANCELLED: ProjectionStatus.CANCELLED,
}


class DeadEntry(Row, frozen=True, kw_only=True):
    """An entry that became a dead letter, and the run that has the letter."""

    org: str
    stream: str
    generation: int
    position: RunId
    run_id: RunId


class Gap(NamedTuple):
    """Entries that Redis removed before they were read: those after one id and before another."""

    generation: int
    after: str
    before: str
    at: Instant


class StreamState(Row, frozen=True, kw_only=True):
    """A stream, as its consumers last saw it.

    generation   counts how often Redis came back without the stream, from 1
    identity     names the generation, here and in Redis
    held_back    why reading pauses: a fact
    seen         the newest entry that existed at the last report, for finding gaps
    """

    org: str
    name: str
    generation: int
    identity: str
    last_position: RunId
    reader: str | None
    reader_until: Instant | None
    paused_at: Instant | None
    paused_by: str | None
    stored: BigInt
    duplicates: BigInt
    dead: BigInt
    taken_over: BigInt
    lag: BigInt | None
    pending: BigInt | None
    oldest_at: Instant | None
    rate: float | None
    held_back: Fact | None
    last_error: Fact | None
    error_at: Instant | None
    gaps: str
    seen: str | None
    reported_at: Instant | None

    @property
    def known_gaps(self) -> Sequence[Gap]:
        """The gaps, oldest first."""
        return msgspec.json.decode(self.gaps, type=list[Gap])


class StreamName(NamedTuple):
    org: str
    name: str


class StreamReport(NamedTuple):
    """What a consumer has done since its last report, and what it has seen in Redis.

    held_back, last_error  facts as JSON; None: nothing new
    seen                   the newest entry that exists
    """

    generation: int
    last_position: RunId
    stored: BigInt
    duplicates: BigInt
    dead: BigInt
    taken_over: BigInt
    lag: BigInt | None
    pending: BigInt | None
    oldest_at: Instant | None
    rate: float | None
    held_back: str | None
    last_error: str | None
    error_at: Instant | None
    seen: str | None


class OutboxEntry(NamedTuple):
    """A change to deliver. A newer version of the same key replaces it; `reference` is JSON text."""

    topic: str
    org: str
    key: str
    version: int
    reference: str
