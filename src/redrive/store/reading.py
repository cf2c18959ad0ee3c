"""Looking at a database without making or changing anything: what verify, doctor and migrate begin with."""

from __future__ import annotations

from redrive.store.database import Database
from redrive.store.sqlite import SqliteDatabase
from redrive.store.sqlite_reader import SqliteReader


def reading(database: Database) -> Database:
    """The same over connections of its own; NotFoundError from the first look at a file that is not there.

    In memory there is only the one connection.
    """
    if isinstance(database, SqliteDatabase) and not database.in_memory:
        return SqliteReader(database.path, clock=database._clock, durable=database._durable)
    return database.another()


def place_of(database: Database) -> str:
    """Where it is, as an operator calls it: a file, or host and name; without secrets."""
    if isinstance(database, SqliteDatabase):
        return database.path
    connections = getattr(database, "_connections", None)
    return "PostgreSQL" if connections is None else str(connections.place)
