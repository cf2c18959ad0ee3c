"""The limit: PostgreSQL through asyncpg without any engine, on the very tables that Redrive uses.

Bulk is `unnest` of what it is given; work is to claim and complete in batches of 100, one after the other.
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

_INSERT = """INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place,
    submitted_at, step_index, step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, correlation_id)
SELECT id, 'default', 'nothing', 'none', 'default', 0, 'PENDING', 'ready',
    extract(epoch FROM clock_timestamp()), 0, 'PENDING', input, 0, 0, 0, 0, 0, 0, 0, 0, id
FROM unnest(CAST($1 AS text[]), CAST($2 AS text[])) AS batch (id, input)"""

_CLAIM = """WITH picked AS MATERIALIZED (
    SELECT id AS picked_id FROM redrive.runs
    WHERE place = 'ready' AND queue = 'default'
    ORDER BY priority DESC, submitted_at, id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.runs SET place = 'leased', state = 'RUNNING', step_state = 'RUNNING', attempt = attempt + 1,
    epoch = epoch + 1, token = $2, worker = 'raw',
    lease_expires_at = extract(epoch FROM clock_timestamp()) + 60,
    attempt_started_at = extract(epoch FROM clock_timestamp())
FROM picked WHERE id = picked_id
RETURNING id, input"""

_COMPLETE = """UPDATE redrive.runs SET place = 'ended', state = 'SUCCESS', step_state = 'SUCCESS',
    result = 'null', ended_at = extract(epoch FROM clock_timestamp()), lease_expires_at = NULL
WHERE id = ANY(CAST($1 AS text[])) AND token = $2 AND place = 'leased'"""

_LEFT = "SELECT count(*) FROM redrive.runs WHERE place <> 'ended'"


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
