"""Looking at the tables by hand."""

from __future__ import annotations

from redrive.store.database import Database, Row
from redrive.store.statement import Query, Statement

_PLACES = ("ready", "waiting", "held", "alone", "leased")
_BACKLOG = " + ".join(f"(SELECT count(*) FROM redrive.runs WHERE place = '{place}')" for place in _PLACES)


async def look(database: Database, text: str) -> list[Row]:
    queries = (Query("by hand", each, ()) for each in (text.replace("redrive.", ""), text))
    return await database.fetch(Statement(*queries), {})


async def backlog(database: Database) -> int:
    """How many runs have not ended."""
    [row] = await look(database, f"SELECT {_BACKLOG}")
    return int(row[0])
