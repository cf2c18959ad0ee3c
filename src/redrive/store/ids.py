"""Find ids by their beginning: a range of the primary key, in one organization."""

from __future__ import annotations

from enum import StrEnum

from redrive.model.id import Candidate, id_range
from redrive.store.database import Session
from redrive.store.statement import statements

_SQL = statements("ids")


class IdKind(StrEnum):
    """What an id belongs to, as people call it."""

    RUN = "run"
    DEAD_LETTER = "dead letter"
    OPERATION = "bulk replay"
    REPLAY = "replay"
    EVENT = "event"
    REBUILD = "rebuild"


_STATEMENTS = {
    IdKind.RUN: "runs",
    IdKind.DEAD_LETTER: "dead_letters",
    IdKind.OPERATION: "operations",
    IdKind.REPLAY: "replays",
    IdKind.EVENT: "events",
    IdKind.REBUILD: "rebuilds",
}


class IdStore:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def starting_with(self, kind: IdKind, prefix: str, org: str, most: int) -> list[Candidate]:
        """Return the newest objects of one kind whose id starts with the prefix, newest first."""
        first, last = id_range(prefix)
        parameters = {"org": org, "first": first, "last": last, "most": most}
        return [
            Candidate._make(row) for row in await self._session.fetch(_SQL[_STATEMENTS[kind]], parameters)
        ]
