"""Measurements: each gets an empty database and an empty Redis.

The clock starts when the first entries were delivered to a consumer, and stops when all entries are
acknowledged, or when the database knows that every run has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, sleep

import psycopg
import redis
from bench.streams import entries
from bench.streams.contender import PROJECTING, Contender, Entry, entry
from bench.streams.process import Processes, processes

LOOK_INTERVAL = 0.005
PATIENCE = 300.0
_UNFINISHED = "SELECT (SELECT count(*) FROM redrive.ready) + (SELECT count(*) FROM redrive.leases)"


def ingest(entry: Entry, count: int, pending: int, database: str, address: str) -> float:
    """Return the entries per second that one consumer stores and acknowledges."""
    contender = entry.at(database, address)
    contender.prepare()
    if pending:
        entries.leave_pending(address, pending)
    contender.publish(count)
    with processes(entry.label, database, address, ["consume"]) as group, _Group(entry, address) as stream:
        first = stream.delivered()
        group.go()
        _until(group, lambda: stream.delivered() != first)
        started = monotonic()
        _until(group, lambda: stream.is_read(pending))
        seconds = monotonic() - started
    _check_stored(entry, database, count)
    return count / seconds


def project(label: str, count: int, database: str, address: str) -> float:
    """Return the events per second that are read, stored and projected, by a consumer and a worker."""
    chosen = entry(label)
    contender = chosen.at(database, address)
    contender.prepare()
    contender.publish(count)
    with (
        processes(label, database, address, ["consume", "work"]) as group,
        _Group(chosen, address) as stream,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        first = stream.delivered()
        group.go()
        _until(group, lambda: stream.delivered() != first)
        started = monotonic()
        _until(group, lambda: group.counters.done >= count)
        _until(group, lambda: not _unfinished(connection))
        return count / (monotonic() - started)


def drain(count: int, database: str, address: str) -> float:
    """Return the runs of the same projector per second that a worker executes if all are stored before."""
    contender = entry(PROJECTING).at(database, address)
    contender.prepare()
    asyncio.run(_record(contender, count))
    with (
        processes(PROJECTING, database, address, ["work"]) as group,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        group.go()
        _until(group, lambda: group.counters.begun > 0)
        started, before = monotonic(), group.counters.begun
        _until(group, lambda: group.counters.done >= count)
        _until(group, lambda: not _unfinished(connection))
        return (count - before) / (monotonic() - started)


def _check_stored(entry: Entry, database: str, count: int) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute(f"SELECT count(*) FROM {entry.table}".encode()).fetchone()
    if row != (count,):
        raise RuntimeError(f"{entry.label} has acknowledged {count} entries and stored {row}")


async def _record(contender: Contender, count: int) -> None:
    await contender.record(count)  # type: ignore[attr-defined]


class _Group:
    """The consumer group of a contender."""

    def __init__(self, entry: Entry, address: str) -> None:
        self._key, self._group = entry.stream, entry.group
        self._client = redis.Redis.from_url(address)

    def __enter__(self) -> _Group:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def delivered(self) -> bytes:
        return self._info()[0]

    def is_read(self, pending: int) -> bool:
        """Return whether every entry was delivered, and only `pending` are not acknowledged."""
        delivered, waiting = self._info()
        last: bytes = self._client.xinfo_stream(self._key)["last-generated-id"]
        return delivered == last and waiting == pending

    def _info(self) -> tuple[bytes, int]:
        for group in self._client.xinfo_groups(self._key):
            if group["name"].decode() == self._group:
                return group["last-delivered-id"], group["pending"]
        return b"0-0", 0


def _unfinished(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute(_UNFINISHED).fetchone()
    return 0 if row is None else row[0]


def _until(group: Processes, condition: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        group.check(deadline)
        sleep(LOOK_INTERVAL)
