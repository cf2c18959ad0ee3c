"""The shared state of a stream: its generation, its reader, its reports, and whether reading pauses."""

from __future__ import annotations

from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.events.stream import Stream
from redrive.model.event import StreamGapFound
from redrive.model.stream import Gap, StreamName, StreamReport, StreamState
from redrive.store.store import Store

MIN_READER_SECONDS = 1.0


class ReaderLease(NamedTuple):
    """The lease of the only reader of an ordered stream, which fences what the reader stores."""

    token: int
    seconds: float


class StreamControl:
    """What the consumers of a stream share in the database."""

    def __init__(self, stream: Stream, store: Store, ids: Ids, clock: Clock, event_bus: EventBus) -> None:
        self.stream = stream
        self.event_bus = event_bus
        self.name = StreamName(stream.org, stream.name)
        self.clock = clock
        self.ids = ids
        self._store = store
        self._streams = store.streams

    async def state(self) -> StreamState:
        return await self._streams.ensure(self.name)

    async def begin_generation(self, before: str, identity: str) -> StreamState:
        """Begin a generation, unless another consumer has. Return the state."""
        await self._streams.begin_generation(self.name, before, identity)
        return await self.state()

    def new_lease(self) -> ReaderLease:
        return ReaderLease(self.ids.token(), max(MIN_READER_SECONDS, self.stream.idle_seconds))

    async def take_reader(self, reader: str, lease: ReaderLease) -> bool:
        """Become the reader of the stream, or renew the lease; False while another consumer is the reader."""
        return await self._streams.take_reader(self.name, reader, lease.token, lease.seconds)

    async def release_reader(self, lease: ReaderLease) -> None:
        await self._streams.release_reader(self.name, lease.token)

    async def report(self, report: StreamReport) -> None:
        await self._streams.report(self.name, report)

    async def add_gap(self, generation: int, after: str, before: str) -> bool:
        """Note that Redis removed the entries between two ids unread. Return whether that is news."""
        gap = Gap(generation, after, before, self.clock.now())
        is_news = await self._streams.add_gap(self.name, gap)
        if is_news:
            self.event_bus.emit(StreamGapFound(*self.name, after, before))
        return is_news

    async def queued(self) -> int:
        """Count the queued runs of the projectors, up to a little more than the maximum."""
        projectors, most = self.stream.projectors, self.stream.max_queued + 1
        if not projectors:
            return 0
        queues = {projector.queue for projector in projectors}
        tasks = {projector.task for projector in projectors}
        return await self._store.events.queued(self.stream.orgs, queues, tasks, most)
