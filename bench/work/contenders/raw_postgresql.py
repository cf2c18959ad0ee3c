"""The limit: PostgreSQL through asyncpg without an engine, on Redrive's own tables.

Bulk inserts use `unnest`; work means claiming and completing batches of 100, one after the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import asyncpg
from bench.work.jobs import Jobs, Kind, Payload

from redrive import Redrive
from redrive.settings import Settings

BATCH = 100
CONNECTIONS = 8

_INSERT = """WITH given AS (
    INSERT INTO redrive.run_inputs (id, org, definition, input)
    SELECT id, 'default', 'none', input
    FROM unnest(CAST($1 AS uuid[]), CAST($2 AS text[])) AS batch (id, input)
    RETURNING id
)
INSERT INTO redrive.ready (id, org, workflow, queue, priority, submitted_at, sort_key, epoch, attempt,
    step_index, failures, rate_limit_waits, holds, losses, isolated_crashes, isolation, replays, redrives,
    step_only, has_letter, state, step_state, place)
SELECT id, 'default', 'nothing', 'default', 0, extract(epoch FROM clock_timestamp()),
    extract(epoch FROM clock_timestamp()), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'PENDING', 'PENDING',
    'ready'
FROM given"""

_CLAIM = """WITH gone AS (
    DELETE FROM redrive.ready WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM redrive.ready
        WHERE queue = 'default' ORDER BY sort_key, id LIMIT $1 FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
), leased AS (
    INSERT INTO redrive.leases (id, org, workflow, queue, priority, submitted_at, sort_key, epoch, attempt,
        step_index, failures, rate_limit_waits, holds, losses, isolated_crashes, isolation, replays, redrives,
        step_only, has_letter, token, worker, leased_until)
    SELECT id, 'default', 'nothing', 'default', 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, $2, 'raw',
        extract(epoch FROM clock_timestamp()) + 60
    FROM gone
    RETURNING id
)
SELECT leased.id, given.input FROM leased
CROSS JOIN LATERAL (SELECT input FROM redrive.run_inputs WHERE id = leased.id OFFSET 0) AS given"""

_COMPLETE = """WITH gone AS (
    DELETE FROM redrive.leases WHERE id = ANY(CAST($1 AS uuid[])) AND token = $2 RETURNING id
)
INSERT INTO redrive.ended (id, org, workflow, queue, priority, submitted_at, ended_at, epoch, attempt,
    step_index, state, step_state, result)
SELECT id, 'default', 'nothing', 'default', 0, 0, extract(epoch FROM clock_timestamp()), 1, 1, 0, 'SUCCESS',
    'SUCCESS', 'null'
FROM gone"""

_LEFT = "SELECT (SELECT count(*) FROM redrive.ready) + (SELECT count(*) FROM redrive.leases)"


class Contender:
    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None

    async def prepare(self) -> None:
        async with Redrive(settings=Settings(database_url=self._url)):
            pass
        self._pool = await asyncpg.create_pool(self._url, min_size=CONNECTIONS, max_size=CONNECTIONS)

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        await self.enqueue_many(kind, [payload])
        if kind is Kind.PICK_UP:
            await self._pool.execute("NOTIFY raw")

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        ids = [uuid4().hex for _ in payloads]
        await self._pool.execute(_INSERT, ids, [json.dumps(payload) for payload in payloads])

    async def has_ended(self, kind: Kind, count: int) -> bool:
        return int(await self._pool.fetchval(_LEFT)) == 0

    def work(self, jobs: Jobs) -> None:
        asyncio.run(self._work(jobs))

    async def _work(self, jobs: Jobs) -> None:
        connection = await asyncpg.connect(self._url)
        claim, complete = await connection.prepare(_CLAIM), await connection.prepare(_COMPLETE)
        heard = asyncio.Event()
        await connection.add_listener("raw", lambda *_: heard.set())
        token = 0
        while True:
            heard.clear()
            token += 1
            rows = await claim.fetch(BATCH, token)
            for row in rows:
                jobs.perform(json.loads(row[1]))
            if rows:
                await complete.fetch([row[0] for row in rows], token)
            else:
                await heard.wait()
