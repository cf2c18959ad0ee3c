"""The state of streams, as their consumers share it: generations, readers, reports and gaps."""

from __future__ import annotations

import msgspec

from redrive.model.stream import START, DeadEntry, Gap, StreamName, StreamReport, StreamState
from redrive.store.database import Session, findable
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements

MAX_GAPS = 50
"""The newest gaps are kept."""


_SQL = statements("streams", StreamState, DeadEntry)


class StreamStore:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def ensure(self, stream: StreamName) -> StreamState:
        """Return the state of a stream. A new one has generation 0 until a consumer begins the first."""
        await self._session.fetch(_SQL["ensure"], {**stream._asdict(), "start": START.text})
        [row] = await self._session.fetch(_SQL["get"], stream._asdict())
        return read_row(StreamState, row)

    async def find(self, stream: StreamName) -> StreamState | None:
        sought = stream._replace(name=findable(stream.name))
        rows = await self._session.fetch(_SQL["get"], sought._asdict())
        return read_row(StreamState, rows[0]) if rows else None

    async def all(self, org: str) -> list[StreamState]:
        return read_rows(StreamState, await self._session.fetch(_SQL["all"], {"org": org}))

    async def begin_generation(self, stream: StreamName, before: str, identity: str) -> bool:
        """Begin a generation, unless another consumer has begun one since `before` was read."""
        parameters = {**stream._asdict(), "before": before, "identity": identity, "start": START.text}
        return bool(await self._session.fetch(_SQL["begin_generation"], parameters))

    async def take_reader(self, stream: StreamName, reader: str, token: int, lease_seconds: float) -> bool:
        """Become the only reader of a stream, unless another one holds an unexpired lease."""
        parameters = {**stream._asdict(), "reader": reader, "token": token, "lease_seconds": lease_seconds}
        return bool(await self._session.fetch(_SQL["take_reader"], parameters))

    async def hold_reader(
        self, session: Session, stream: StreamName, token: int, lease_seconds: float
    ) -> bool:
        """Renew the lease of a reader in the caller's transaction; False if it was lost."""
        parameters = {**stream._asdict(), "token": token, "lease_seconds": lease_seconds}
        return bool(await session.fetch(_SQL["hold_reader"], parameters))

    async def release_reader(self, stream: StreamName, token: int) -> None:
        await self._session.fetch(_SQL["release_reader"], {**stream._asdict(), "token": token})

    async def report(self, stream: StreamName, report: StreamReport) -> None:
        await self._session.fetch(_SQL["report"], {**stream._asdict(), **report._asdict()})

    async def add_gap(self, stream: StreamName, gap: Gap) -> bool:
        """Add a gap, or extend the one after the same entry. Return whether that is news."""
        while True:
            state = await self.ensure(stream)
            known = state.known_gaps
            if any(gap._replace(at=other.at) == other for other in known):
                return False
            others = [other for other in known if other[:2] != gap[:2]]
            gaps = msgspec.json.encode([*others, gap][-MAX_GAPS:]).decode()
            if await self._session.fetch(
                _SQL["add_gap"], {**stream._asdict(), "gaps": gaps, "before": state.gaps}
            ):
                return True

    async def pause(self, session: Session, stream: StreamName, by: str) -> bool:
        """Let consumers read nothing more. Return False if the stream is paused already."""
        await session.fetch(_SQL["ensure"], {**stream._asdict(), "start": START.text})
        return bool(await session.fetch(_SQL["pause"], {**stream._asdict(), "by": by}))

    async def resume(self, session: Session, stream: StreamName) -> bool:
        """Let consumers read on. Return False if the stream is not paused."""
        return bool(await session.fetch(_SQL["resume"], stream._asdict()))

    async def bury(self, session: Session, entry: DeadEntry) -> bool:
        """Note in the caller's transaction that an entry became a dead letter; False if it already had."""
        return bool(await session.fetch(_SQL["bury"], entry.asdict()))

    async def buried(self, entry: DeadEntry) -> str | None:
        """Return the run of the dead letter of an entry; None if it has none."""
        rows = await self._session.fetch(_SQL["buried"], entry.asdict())
        return str(rows[0][0]) if rows else None
