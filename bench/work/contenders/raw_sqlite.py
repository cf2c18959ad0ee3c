"""The limit: SQLite through apsw without an engine, on Redrive's own tables.

Every commit is synced. Bulk means 100 rows per transaction; work means claiming and completing batches of
100.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import apsw
from bench.work.jobs import Jobs, Kind, Payload

from redrive import Redrive
from redrive.settings import Settings

BATCH = 100

_INSERT = """INSERT INTO runs (id, org, workflow, definition, queue, priority, state, place, submitted_at,
    step_index, step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, sort_key)
VALUES (?1, 'default', 'nothing', 'none', 'default', 0, 'PENDING', 'ready', ?2, 0, 'PENDING', ?3,
    0, 0, 0, 0, 0, 0, 0, 0, ?2)"""

_CLAIM = """UPDATE runs SET place = 'leased', state = 'RUNNING', step_state = 'RUNNING',
    attempt = attempt + 1, epoch = epoch + 1, token = ?2, worker = 'raw', leased_until = ?3 + 60,
    attempt_started_at = ?3
WHERE id IN (
    SELECT id FROM runs WHERE place = 'ready' AND queue = 'default'
    ORDER BY sort_key, id
    LIMIT ?1
)
RETURNING id, input"""

_COMPLETE = """UPDATE runs SET place = 'ended', state = 'SUCCESS', step_state = 'SUCCESS', result = 'null',
    ended_at = ?3, leased_until = NULL
WHERE id = ?1 AND token = ?2 AND place = 'leased'"""

_LEFT = "SELECT count(*) FROM runs WHERE place IN ('ready', 'leased')"


class Contender:
    def __init__(self, url: str) -> None:
        self._url = url
        self._path = url.removeprefix("sqlite:///")

    async def prepare(self) -> None:
        async with Redrive(settings=Settings(database_url=self._url)):
            pass
        self._connection = _connected(self._path)

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        self._insert([payload])

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        for start in range(0, len(payloads), BATCH):
            self._insert(payloads[start : start + BATCH])

    async def has_ended(self, kind: Kind, count: int) -> bool:
        return bool(self._connection.execute(_LEFT).get == 0)

    def work(self, jobs: Jobs) -> None:
        connection, token = _connected(self._path), 0
        while True:
            token += 1
            with _transaction(connection):
                rows = list(connection.execute(_CLAIM, (BATCH, token, time.time())))
            for row in rows:
                jobs.perform(json.loads(str(row[1])))
            with _transaction(connection):
                connection.executemany(_COMPLETE, [(row[0], token, time.time()) for row in rows])

    def _insert(self, payloads: Sequence[Payload]) -> None:
        with _transaction(self._connection):
            rows = [(uuid4().hex, time.time(), json.dumps(payload)) for payload in payloads]
            self._connection.executemany(_INSERT, rows)


def _connected(path: str) -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.set_busy_timeout(10_000)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")
