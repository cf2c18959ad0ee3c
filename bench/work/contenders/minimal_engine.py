"""The yardstick: a bare engine on asyncpg, which shows the effect of batching alone on PostgreSQL.

It claims 200 jobs at once with a lease, runs an asyncio task for each, commits their outcomes and step
results in groups, listens for new work, and keeps all rows. It has no fencing, no recovery of leases, no dead
letters and no cancellation.
"""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import asyncpg
from bench.work.contenders.counter import Counter
from bench.work.jobs import Jobs, Kind, Payload

BATCH = 200
MAX_RUNNING = 1_000
POLLING = 0.5
STEPS = (1, 2, 3)
_READY, _LEASED, _DONE, _DEAD = range(4)

_TABLES = """
CREATE TABLE jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text NOT NULL, task text NOT NULL,
  state smallint NOT NULL DEFAULT 0, priority smallint NOT NULL DEFAULT 0,
  attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL DEFAULT 3,
  run_at timestamptz NOT NULL DEFAULT now(), lease_until timestamptz, worker int,
  payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), finished_at timestamptz, error text);
CREATE INDEX jobs_ready ON jobs (queue, priority, run_at, id) WHERE state = 0;
CREATE INDEX jobs_lease ON jobs (lease_until) WHERE state = 1;
CREATE TABLE jobs_done (LIKE jobs);
CREATE TABLE steps (job bigint NOT NULL, step smallint NOT NULL, result jsonb, at timestamptz DEFAULT now(),
    PRIMARY KEY (job, step));
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000)"""

_PINNED_PLANS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}

_INSERT = """WITH i AS (INSERT INTO jobs (queue, task, payload, max_attempts)
        SELECT 'q', $1, x, $3 FROM unnest($2::jsonb[]) x) SELECT pg_notify('jobs', 'q')"""

_CLAIM = f"""WITH c AS (SELECT id FROM jobs WHERE state = 0 AND queue = 'q' AND run_at <= now()
        ORDER BY priority, run_at, id LIMIT {BATCH} FOR UPDATE SKIP LOCKED)
    UPDATE jobs j SET state = 1, attempt = attempt + 1, lease_until = now() + interval '30 s', worker = $1
    FROM c WHERE j.id = c.id RETURNING j.id, j.task, j.payload, j.attempt, j.max_attempts"""

_FINISH = """UPDATE jobs j SET state = o.s, error = o.e, lease_until = NULL,
        finished_at = CASE WHEN o.s >= 2 THEN now() END
    FROM unnest($1::bigint[], $2::smallint[], $3::text[]) AS o(id, s, e)
    WHERE j.id = o.id AND j.worker = $4"""

_RECORD_STEPS = """INSERT INTO steps (job, step, result)
    SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::jsonb[]) ON CONFLICT DO NOTHING"""

_LEFT = "SELECT count(*) FROM jobs WHERE state IN (0, 1)"


class Contender:
    def __init__(self, url: str) -> None:
        self._url = url
        self._counter = Counter(url)
        self._insert: Any = None

    async def prepare(self) -> None:
        connection = await asyncpg.connect(self._url)
        await connection.execute(_TABLES)
        self._insert = await connection.prepare(_INSERT)

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        await self.enqueue_many(kind, [payload])

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        max_attempts = 1 if kind is Kind.FAIL else 3
        await self._insert.fetch(str(kind), [json.dumps(payload) for payload in payloads], max_attempts)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        return await self._counter.count(_LEFT) == 0

    def work(self, jobs: Jobs) -> None:
        asyncio.run(Engine(self._url, jobs).run())


class Engine:
    def __init__(self, url: str, jobs: Jobs) -> None:
        self._url = url
        self._jobs = jobs
        self._worker = os.getpid()
        self._running = 0
        self._outcomes: list[tuple[int, int, str | None]] = []
        self._steps: list[tuple[int, int, str]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._has_room, self._has_work, self._has_news = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        claiming, writing, listening = [await self._connect() for _ in range(3)]
        await listening.add_listener("jobs", lambda *_: self._has_work.set())
        await asyncio.gather(self._claim(claiming), self._write(writing))

    async def _connect(self) -> Any:
        return await asyncpg.connect(self._url, server_settings=_PINNED_PLANS)

    async def _claim(self, connection: Any) -> None:
        claim = await connection.prepare(_CLAIM)
        while True:
            while self._running > MAX_RUNNING - BATCH:
                self._has_room.clear()
                await self._has_room.wait()
            self._has_work.clear()
            rows = await claim.fetch(self._worker)
            self._running += len(rows)
            for row in rows:
                asyncio.ensure_future(self._execute(row))  # noqa: RUF006 — the loop or a step's future holds it
            if len(rows) < BATCH:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._has_work.wait(), POLLING)

    async def _execute(self, row: Any) -> None:
        payload = json.loads(row["payload"])
        try:
            self._jobs.perform(payload)
            if row["task"] == Kind.WORKFLOW:
                for step in STEPS:
                    await self._record_step(row["id"], step)
                self._jobs.end()
            self._outcomes.append((row["id"], _DONE, None))
        except Exception:  # noqa: BLE001 — whatever a job raises
            is_dead = row["attempt"] >= row["max_attempts"]
            self._outcomes.append((row["id"], _DEAD if is_dead else _READY, traceback.format_exc()))
            if not is_dead:
                self._has_work.set()
        self._running -= 1
        self._has_news.set()

    def _record_step(self, job: int, step: int) -> asyncio.Future[None]:
        """Return when the step is durable."""
        durable = asyncio.get_running_loop().create_future()
        self._steps.append((job, step, "{}"))
        self._waiting.append(durable)
        self._has_news.set()
        return durable

    async def _write(self, connection: Any) -> None:
        finish, record_steps = await connection.prepare(_FINISH), await connection.prepare(_RECORD_STEPS)
        while True:
            await self._has_news.wait()
            await asyncio.sleep(0)  # let the tasks of this round report
            self._has_news.clear()
            outcomes, self._outcomes = self._outcomes, []
            steps, self._steps = self._steps, []
            waiting, self._waiting = self._waiting, []
            if steps and outcomes:
                async with connection.transaction():
                    await record_steps.fetch(*_columns(steps))
                    await finish.fetch(*_columns(outcomes), self._worker)
            elif steps:
                await record_steps.fetch(*_columns(steps))
            elif outcomes:
                await finish.fetch(*_columns(outcomes), self._worker)
            for durable in waiting:
                durable.set_result(None)
            if any(state == _READY for _, state, _ in outcomes):
                self._has_work.set()
            self._has_room.set()


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
