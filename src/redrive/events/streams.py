"""The streams of an organization: their projectors, how far they have been read, and pausing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.errors import AccessDeniedError, NotFoundError
from redrive.events.projector import Projector
from redrive.events.service_parts import EventParts
from redrive.events.stream import Stream
from redrive.model.audit import Action, NewEntry
from redrive.model.fact import Fact
from redrive.model.field import Instant
from redrive.model.stream import Gap, StreamName, StreamState
from redrive.policy.user_text import clean_reason


class ProjectorView(NamedTuple):
    """A projector that this program declares.

    types         patterns of the types that it processes; empty: every type
    ordered_by    what orders its events: "user", "source", "type" or "function"; null: nothing
    after_failure whether successors of a dead letter wait for it; of no meaning without an order
    """

    name: str
    version: int
    task: str
    queue: str
    types: Sequence[str]
    ordered_by: str | None
    after_failure: str


class StreamView(NamedTuple):
    """A stream as its consumers last reported it. Without a report, the numbers are 0 or None.

    key, group   its names in Redis; None if this program does not declare it
    generation   counts how often Redis came back without the stream, from 1; 0 before the first consumer
    stored       how many events consumers have stored
    duplicates   how many deliveries were duplicates
    dead         how many entries became dead letters
    taken_over   how many entries were taken over from silent consumers
    lag          how many entries are not read yet
    pending      how many entries are read and not acknowledged
    oldest_at    when the oldest pending entry was published
    rate         events per second
    waiting      how many ordered projections wait for an undecided entry
    held_back    why reading pauses now
    gaps         entries that Redis removed before they were read
    reader       the consumer that is the only reader of an ordered stream
    reported_at  when a consumer last reported
    """

    name: str
    key: str | None
    group: str | None
    paused: bool
    paused_at: Instant | None
    paused_by: str | None
    generation: int
    stored: int
    duplicates: int
    dead: int
    taken_over: int
    lag: int | None
    pending: int | None
    oldest_at: Instant | None
    rate: float | None
    waiting: int
    held_back: Fact | None
    last_error: Fact | None
    error_at: Instant | None
    gaps: Sequence[Gap]
    reader: str | None
    reported_at: Instant | None
    projectors: Sequence[ProjectorView]

    @property
    def state(self) -> str:
        return "paused" if self.paused else "active"


class Streams:
    """The streams of the caller's organization."""

    def __init__(self, parts: EventParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._caller = parts.caller

    async def list(self) -> Sequence[StreamView]:
        """List all streams that this program declares, that a consumer has read, or that have events."""
        states = {state.name: state for state in await self._store.streams.all(self._caller.org)}
        names = {*self._declared(), *states, *await self._store.event_lists.streams(self._caller.org)}
        return [await self._view(name, states.get(name)) for name in sorted(names)]

    async def view(self, name: str) -> StreamView:
        for stream in await self.list():
            if stream.name == name:
                return stream
        raise NotFoundError(f"found no stream {name!r:.100}")

    async def pause(self, name: str, *, reason: str = "") -> bool:
        """Let consumers read nothing more. Return False if the stream is paused already."""
        return await self._change(name, Action.STREAM_PAUSED, reason)

    async def resume(self, name: str, *, reason: str = "") -> bool:
        """Let consumers read on. Return False if the stream is not paused."""
        return await self._change(name, Action.STREAM_RESUMED, reason)

    async def _change(self, name: str, action: Action, reason: str) -> bool:
        why, stream = clean_reason(reason, self._parts.redactor), StreamName(self._caller.org, name)
        await self._check_own(name)
        async with self._store.database.transaction() as session:
            if action is Action.STREAM_PAUSED:
                changed = await self._store.streams.pause(session, stream, self._caller.name)
            else:
                changed = await self._store.streams.resume(session, stream)
            if changed:
                entry = NewEntry(*self._caller, action, (name,), {"reason": why})
                await self._store.audit.append(session, [entry])
        return changed

    async def _check_own(self, name: str) -> None:
        """Raise unless the stream belongs to the caller's organization, which may differ from its events'."""
        stream = self._parts.streams.get(name)
        if stream is not None and stream.org != self._caller.org and self._caller.org in stream.orgs:
            raise AccessDeniedError(
                f"the stream {name!r:.100} belongs to another organization, which alone can pause it"
            )
        if stream is not None and stream.org == self._caller.org:
            return
        if await self._store.streams.find(StreamName(self._caller.org, name)) is None:
            raise NotFoundError(f"found no stream {name!r:.100}")

    def _declared(self) -> dict[str, Stream]:
        org = self._caller.org
        return {name: stream for name, stream in self._parts.streams.items() if org in stream.orgs}

    async def _view(self, name: str, state: StreamState | None) -> StreamView:
        declared = self._declared().get(name)
        waiting = await self._store.events.count_waiting([self._caller.org], name)
        return StreamView(
            name=name,
            key=None if declared is None else declared.key,
            group=None if declared is None else declared.group,
            paused=state is not None and state.paused_at is not None,
            paused_at=None if state is None else state.paused_at,
            paused_by=None if state is None else state.paused_by,
            generation=0 if state is None else state.generation,
            stored=0 if state is None else state.stored,
            duplicates=0 if state is None else state.duplicates,
            dead=0 if state is None else state.dead,
            taken_over=0 if state is None else state.taken_over,
            lag=None if state is None else state.lag,
            pending=None if state is None else state.pending,
            oldest_at=None if state is None else state.oldest_at,
            rate=None if state is None else state.rate,
            waiting=waiting,
            held_back=None if state is None else state.held_back,
            last_error=None if state is None else state.last_error,
            error_at=None if state is None else state.error_at,
            gaps=() if state is None else state.known_gaps,
            reader=None if state is None else state.reader,
            reported_at=None if state is None else state.reported_at,
            projectors=[] if declared is None else [_projector(known) for known in declared.projectors],
        )


def _projector(projector: Projector) -> ProjectorView:
    order = projector.ordered_by
    return ProjectorView(
        name=projector.name,
        version=projector.version,
        task=projector.task,
        queue=projector.queue,
        types=projector.types,
        ordered_by="function" if callable(order) else order,
        after_failure=str(projector.after_failure),
    )
