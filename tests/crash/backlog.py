"""Direct reads of the tables."""

from __future__ import annotations

from redrive.store.database import Database, Row
from redrive.store.statement import SqlQuery, Statement

_PLACES = ("ready", "waiting", "held", "alone", "leased")
_BACKLOG = " + ".join(f"(SELECT count(*) FROM redrive.runs WHERE place = '{place}')" for place in _PLACES)


_BEGUN = "SELECT count(*) FROM redrive.replay_operations WHERE state = 'RUNNING'"
_DUE = "SELECT count(*) FROM redrive.dead_letters WHERE state = 'OPEN' AND next_redrive_at IS NOT NULL"


async def look(database: Database, text: str) -> list[Row]:
    queries = (SqlQuery("by hand", each, ()) for each in (text.replace("redrive.", ""), text))
    return await database.fetch(Statement(*queries), {})


async def backlog(database: Database) -> int:
    """Return how many runs have not ended."""
    [row] = await look(database, f"SELECT {_BACKLOG}")
    return int(row[0])


async def unfinished(database: Database) -> int:
    """Return how many runs and operations have not ended, plus dead letters that will be redriven."""
    [row] = await look(database, f"SELECT {_BACKLOG} + ({_BEGUN}) + ({_DUE})")
    return int(row[0])
