"""The streams of an organization: list them, see their state, pause and resume them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.errors import NotFoundError
from redrive.events.stream import Stream
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.stream import StreamName, StreamState
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason
from redrive.store.store import Store
from redrive.words.suggestion import suggest


class StreamView(NamedTuple):
    """A stream that this program declares, or that consumers of another program have read.

    key, group  its names in Redis; None if this program does not declare it
    projectors  the names of its projectors with their versions, such as "qscore:v1"
    state       what its consumers last reported; None if none has run yet
    waiting     ordered projections that wait for an undecided entry
    """

    name: str
    key: str | None
    group: str | None
    projectors: Sequence[str]
    state: StreamState | None
    waiting: int


class Streams:
    """The streams of the caller's organization."""

    def __init__(
        self, store: Store, declared: Mapping[str, Stream], redactor: Redactor, caller: Caller
    ) -> None:
        self._store = store
        self._declared = declared
        self._redactor = redactor
        self._caller = caller

    async def list(self) -> Sequence[StreamView]:
        """List the streams that this program declares, or that any consumer has read, by name."""
        states = {state.name: state for state in await self._store.streams.all(self._caller.org)}
        own = {stream.name for stream in self._declared.values() if stream.org == self._caller.org}
        return [await self._view(name, states.get(name)) for name in sorted({*own, *states})]

    async def view(self, name: str) -> StreamView:
        streams = {stream.name: stream for stream in await self.list()}
        if name not in streams:
            raise NotFoundError(f"there is no stream {name!r:.100}; {suggest(name, streams)}")
        return streams[name]

    async def pause(self, name: str, *, reason: str = "") -> None:
        """Pause a stream: consumers finish their batch and read nothing more. Entries stay in Redis."""
        await self.view(name)
        org, by = self._caller
        stream = StreamName(org, name)
        await self._store.streams.ensure(stream)
        async with self._store.database.transaction() as session:
            await self._store.streams.pause(session, stream, by)
            await self._store.audit.append(session, [self._entry(Action.STREAM_PAUSED, name, reason)])

    async def resume(self, name: str) -> None:
        await self.view(name)
        async with self._store.database.transaction() as session:
            await self._store.streams.resume(session, StreamName(self._caller.org, name))
            await self._store.audit.append(session, [self._entry(Action.STREAM_RESUMED, name, "")])

    async def _view(self, name: str, state: StreamState | None) -> StreamView:
        declared = self._declared.get(name)
        if declared is None or declared.org != self._caller.org:
            waiting = await self._store.events.count_waiting([self._caller.org], name)
            return StreamView(name, None, None, (), state, waiting)
        projectors = [f"{projector.name}:v{projector.version}" for projector in declared.projectors]
        waiting = await self._store.events.count_waiting(declared.orgs, name)
        return StreamView(name, declared.key, declared.group, projectors, state, waiting)

    def _entry(self, action: Action, name: str, reason: str) -> NewEntry:
        org, actor = self._caller
        reason = clean_reason(reason, self._redactor)
        detail = {"reason": reason} if reason else {}
        return NewEntry(org=org, actor=actor, action=action, subjects=(name,), detail=detail)
