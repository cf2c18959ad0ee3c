"""Redrive itself, on either database, with its defaults; only the concurrency is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.work.jobs import Jobs, Kind, PassingError, Payload
from bench.work.statements import statement

from redrive import Backoff, Redrive
from redrive.parts import parts_of
from redrive.policy import STEP, Immediate
from redrive.settings import Settings
from redrive.store.statement import Statement

CONCURRENCY = 1_000
_POLICIES = {
    Kind.FAIL_ONCE: replace(STEP, name="at once", backoff=Backoff(Immediate())),
    Kind.FAIL: replace(STEP, name="once", max_attempts=1),
}


_LEFT = statement(
    "SELECT (SELECT count(*) FROM redrive.runs WHERE place = 'ready')"
    " + (SELECT count(*) FROM redrive.runs WHERE place = 'leased')",
    "SELECT (SELECT count(*) FROM redrive.ready) + (SELECT count(*) FROM redrive.leases)",
)
_RETRYING = statement(
    "SELECT count(*) FROM redrive.runs WHERE place = 'waiting'",
    "SELECT count(*) FROM redrive.idle WHERE place = 'waiting'",
)
_DEAD = statement("SELECT count(*) FROM redrive.dead_letters")


class Contender:
    def __init__(self, url: str) -> None:
        self.app = Redrive(settings=Settings(database_url=url))
        self._jobs: Jobs | None = None
        for kind in (Kind.NOTHING, Kind.PICK_UP, Kind.FAIL_ONCE, Kind.FAIL, Kind.SLEEP):
            work = self._fail if kind is Kind.FAIL else self._perform
            self.app.task(name=str(kind), retry=_POLICIES.get(kind, STEP), timeout=3600.0)(work)
        first = self.app.task(name="first")(self._begin)
        second = self.app.task(name="second")(_pass_on)
        third = self.app.task(name="third")(self._end)
        self.app.workflow(str(Kind.WORKFLOW), [first, second, third])

    async def prepare(self) -> None:
        await self.app.open()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        await self.app.start(str(kind), payload)

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        await self.app.start_many(str(kind), payloads)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        if kind is Kind.FAIL:
            return await self._counted(_DEAD) >= count
        if kind is Kind.FAIL_ONCE and await self._counted(_RETRYING):
            return False
        return not await self._counted(_LEFT)

    def work(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self.app.run_worker(concurrency=CONCURRENCY)

    async def _perform(self, payload: Payload) -> None:
        if self._jobs is not None:
            await self._jobs.perform_async(payload)

    async def _begin(self, payload: Payload) -> Payload:
        await self._perform(payload)
        return payload

    async def _end(self, payload: Payload) -> Payload:
        if self._jobs is not None:
            self._jobs.end()
        return payload

    async def _fail(self, payload: Payload) -> None:
        await self._perform(payload)
        raise PassingError("for good")

    async def _counted(self, statement: Statement) -> int:
        return int((await parts_of(self.app).database.fetch(statement, {}))[0][0])


async def _pass_on(payload: Payload) -> Payload:
    return payload
