"""Rebuilds: their state, and the events that they read next."""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import NotFoundError
from redrive.model.rebuild import EventPlace, Rebuild
from redrive.model.stream import StoredEvent
from redrive.store.database import Row, Session, findable
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements

_SQL = statements("rebuilds", Rebuild, StoredEvent)


class RebuildSnapshot(NamedTuple):
    """A rebuild as read at `now`."""

    rebuild: Rebuild
    now: float


class RebuildStore:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, session: Session, new: Rebuild) -> None:
        """Store a rebuild that starts now. Its `types` must be JSON text."""
        await session.fetch(_SQL["insert"], new.asdict())

    async def get(self, rebuild_id: str, org: str) -> Rebuild:
        rows = await self._session.fetch(_SQL["get"], {"id": findable(rebuild_id), "org": org})
        return read_row(Rebuild, _only(rows, rebuild_id))

    async def lock(self, session: Session, rebuild_id: str, org: str) -> RebuildSnapshot:
        rows = await session.fetch(_SQL["lock"], {"id": findable(rebuild_id), "org": org})
        return _snapshot(_only(rows, rebuild_id))

    async def lock_running(self, session: Session, rebuild_id: str) -> RebuildSnapshot | None:
        """Lock a running rebuild; None if it no longer runs, or another driver has locked it."""
        rows = await session.fetch(_SQL["lock_running"], {"id": rebuild_id})
        return _snapshot(rows[0]) if rows else None

    async def save(self, session: Session, rebuild: Rebuild) -> None:
        """Save what changes in the life of a rebuild."""
        stopped = rebuild.stopped_because
        written = {"stopped_because": None if stopped is None else stopped.encode()}
        await session.fetch(_SQL["save"], rebuild.asdict() | written)

    async def running(self) -> list[RebuildSnapshot]:
        """Return the running rebuilds of all organizations, the oldest first."""
        return [_snapshot(row) for row in await self._session.fetch(_SQL["running"], {})]

    async def unfinished(self, org: str, stream: str, projector: str, version: int) -> list[str]:
        """Return the ids of unfinished rebuilds of a projector."""
        named = {"org": org, "stream": stream, "projector": projector, "version": version}
        return [row[0] for row in await self._session.fetch(_SQL["unfinished"], named)]

    async def page(self, org: str, size: int, before: Rebuild | None) -> list[Rebuild]:
        """Return the newest rebuilds, or those before one."""
        at, rebuild_id = (1e300, "f" * 32) if before is None else (before.created_at, before.id)
        parameters = {"org": org, "at": at, "id": rebuild_id, "size": size}
        return read_rows(Rebuild, await self._session.fetch(_SQL["page"], parameters))

    async def last(self, session: Session, org: str, stream: str) -> EventPlace | None:
        """Return the place of the last event of a stream; None if it has none."""
        rows = await session.fetch(_SQL["last"], {"org": org, "stream": stream})
        return EventPlace._make(rows[0]) if rows else None

    async def count(self, session: Session, org: str, stream: str) -> int:
        [row] = await session.fetch(_SQL["count"], {"org": org, "stream": stream})
        return int(row[0])

    async def executing(self, rebuild: Rebuild) -> int:
        """Count the runs of the projector that workers execute now."""
        parameters = {"workflow": rebuild.task, "org": rebuild.org}
        [row] = await self._session.fetch(_SQL["executing"], parameters)
        return int(row[0])

    async def next_events(self, session: Session, rebuild: Rebuild, most: int) -> list[StoredEvent]:
        """Return the events that a rebuild reads next, in the order of the stream."""
        parameters = {"org": rebuild.org, "stream": rebuild.stream, "most": most}
        parameters |= rebuild.place._asdict() | {f"end_{k}": v for k, v in rebuild.end._asdict().items()}
        return read_rows(StoredEvent, await session.fetch(_SQL["next_events"], parameters))


def _only(rows: list[Row], rebuild_id: object) -> Row:
    if not rows:
        raise NotFoundError(f"found no rebuild {rebuild_id!r:.200}")
    return rows[0]


def _snapshot(row: Row) -> RebuildSnapshot:
    *columns, now = row
    return RebuildSnapshot(read_row(Rebuild, columns), now)
