"""Tables in SQLite: each test process creates them once and copies them into every other new database.

Migrating an empty SQLite database takes about 34 ms of CPU, copying a migrated one takes 1 ms, and thousands
of tests start with an empty database. `SqliteDatabase.migrate` still runs on each copy and finds that it is
up to date. Processes that a test starts migrate for themselves.

A test about migrations asks for the fixture `real_migrations` and gets no copies.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import apsw

from redrive.store import migration
from redrive.store.sqlite import SqliteDatabase

_migrate = SqliteDatabase.migrate
_real_parts = (migration.migrations, migration._statements)
_lock = threading.Lock()


def copy_ready_tables() -> None:
    SqliteDatabase.migrate = _copy_and_migrate  # type: ignore[method-assign,assignment]


@contextlib.contextmanager
def real_migrations() -> Iterator[None]:
    SqliteDatabase.migrate = _migrate  # type: ignore[method-assign]
    try:
        yield
    finally:
        copy_ready_tables()


async def _copy_and_migrate(database: SqliteDatabase) -> None:
    if (migration.migrations, migration._statements) == _real_parts:  # a test or a guard may replace them
        async with database._turn:
            await database._call(lambda: _copy_into(database))
    await _migrate(database)


def _copy_into(database: SqliteDatabase) -> None:
    if database._connection is not None:
        return  # a database that was opened before may contain rows
    if database.in_memory:
        with _lock, database._open().backup("main", _template_in_memory(), "main") as backup:
            backup.step()
    else:
        with contextlib.suppress(OSError):  # if no file can be created, SQLite reports why
            _create_file(database.path)


def _create_file(path: str) -> None:
    """Create the complete file atomically, unless it exists: another process may be creating it."""
    if Path(path).exists():
        return
    draft = Path(f"{path}-{uuid.uuid4().hex}")
    try:
        draft.touch(0o600, exist_ok=False)
        draft.write_bytes(_template_file())
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@cache
def _template_in_memory() -> apsw.Connection:
    return _migrated(":memory:")._open()


@cache
def _template_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "template.db")
        _migrated(str(path))._close()
        return path.read_bytes()


def _migrated(path: str) -> SqliteDatabase:
    database = SqliteDatabase(path, durable=False)
    database._all_or_nothing(database._migrate)
    return database
