"""Breakers, concurrency limits and paused queues, which keep work from starting; and worker heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.model.worker import SILENT_SECONDS, BlockingStep
from redrive.policy.codec import decode, decode_stored, encode
from redrive.store.database import Session
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow


class BreakerRow(NamedTuple):
    """A shared breaker. `closed_at` and `released` describe its recovery; `now` is when it was read."""

    name: str
    body: str
    closed_at: float | None
    released: int
    updated_at: float
    now: float


class LimitRow(NamedTuple):
    name: str
    maximum: int
    in_use: int


class QueueRow(NamedTuple):
    name: str
    paused_at: float | None
    paused_by: str | None
    reason: str | None


class WorkerRow(NamedTuple):
    """A worker.

    workflows  the workflows that it knows, as a JSON list; None: an older version, which claims all
    """

    id: str
    started_at: float
    seen_at: float
    code_version: str
    queues: str
    concurrency: int
    in_flight: int
    state: str
    host: str
    process: int
    workflows: str | None
    blocked_at: float | None
    blocked_by: str | None
    now: float

    @property
    def seconds_silent(self) -> float:
        return self.now - self.seen_at

    def claims(self, queue: str, workflow: str) -> bool:
        """Return whether it claims such work. One that stopped less than a minute ago may be restarting."""
        if self.seconds_silent > SILENT_SECONDS or queue not in _names(self.queues):
            return False
        return self.workflows is None or workflow in _names(self.workflows)

    @property
    def seconds_blocked(self) -> float | None:
        """For how long its event loop has not answered; None if it answers."""
        return None if self.blocked_at is None else self.now - self.blocked_at

    @property
    def blocking_step(self) -> BlockingStep | None:
        if self.blocked_by is None:
            return None
        fields: Any = decode_stored(self.blocked_by)
        return BlockingStep(**fields)


class Released(NamedTuple):
    id: str
    step_index: int
    queue: str


_SQL = statements("limits", BreakerRow, LimitRow, QueueRow, WorkerRow, Released, WorkRow)


class Limits:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def holders(self, prefix: str = "") -> list[str]:
        """Return the names, starting with `prefix`, of breakers and limits that hold work."""
        return [row[0] for row in await self._session.fetch(_SQL["holders"], _beginning_with(prefix))]

    async def forgotten_limits(self, prefix: str) -> list[str]:
        """Return limits that hold work although their row is gone.

        The row was removed between the moment a worker found the limit full and the moment it held the work.
        """
        parameters = _beginning_with(prefix)
        return [row[0] for row in await self._session.fetch(_SQL["forgotten_limits"], parameters)]

    async def count_held(self, held_by: str, most: int = 10_000) -> int:
        """Count the held runs, up to `most`."""
        [row] = await self._session.fetch(_SQL["count_held"], {"held_by": held_by, "most": most})
        return int(row[0])

    async def release(
        self,
        held_by: str,
        most: int,
        skip: int = 0,
        *,
        queues: Sequence[str] | None = None,
        workflows: Sequence[str] | None = None,
    ) -> list[Released]:
        """Make up to `most` held runs ready, oldest first, after skipping the first `skip`.

        Only those in these queues and of these workflows; None: in all, and of all.
        """
        parameters = {
            "held_by": held_by,
            "most": most,
            "skip": skip,
            "queues": None if queues is None else encode(list(queues)),
            "workflows": None if workflows is None else encode(list(workflows)),
        }
        return [Released._make(row) for row in await self._session.fetch(_SQL["release"], parameters)]

    async def hold(self, queue: str, workflow: str, held_by: str, most: int) -> int:
        """Hold up to `most` ready runs of a workflow that no worker knows. Return how many."""
        parameters = {"queue": queue, "workflow": workflow, "held_by": held_by, "most": most}
        return len(await self._session.fetch(_SQL["hold"], parameters))

    async def lock_limits(self, session: Session, maxima: dict[str, int]) -> dict[str, int]:
        """Lock limits, in order of names, until the transaction ends; return their free slots."""
        free = {}
        for name, maximum in sorted(maxima.items()):
            row = await self._lock_limit(session, name, maximum)
            free[name] = maximum - row.in_use
        return free

    async def _lock_limit(self, session: Session, name: str, maximum: int) -> LimitRow:
        while True:
            for row in await session.fetch(_SQL["lock_limit"], {"name": name}):
                return LimitRow._make(row)
            # The row does not exist yet, or another worker removed it before it was locked.
            await session.fetch(_SQL["ensure_limit"], {"name": name, "maximum": maximum})

    async def save_limits(self, session: Session, limits: Sequence[LimitRow]) -> None:
        await session.fetch_many(_SQL["save_limit"], limits)

    async def limits_with_room(self) -> list[tuple[str, int]]:
        """Return the limits that hold work and have free slots, with the number of slots."""
        rows = await self._session.fetch(_SQL["limits_with_room"], {})
        return [(row[0], row[1]) for row in rows]

    async def forget_limits(self) -> None:
        """Remove unused counters: limits with a key per user can be many."""
        await self._session.fetch(_SQL["forget_limits"], {})

    async def breakers(self) -> list[BreakerRow]:
        return [BreakerRow._make(row) for row in await self._session.fetch(_SQL["breakers"], {})]

    async def breaker(self, name: str) -> BreakerRow | None:
        rows = await self._session.fetch(_SQL["breaker"], {"name": name})
        return BreakerRow._make(rows[0]) if rows else None

    async def lock_breaker(self, session: Session, name: str) -> BreakerRow:
        """Lock a breaker until the transaction ends, creating it if it does not exist."""
        rows = await session.fetch(_SQL["lock_breaker"], {"name": name})
        if not rows:
            await session.fetch(_SQL["ensure_breaker"], {"name": name})
            rows = await session.fetch(_SQL["lock_breaker"], {"name": name})
        return BreakerRow._make(rows[0])

    async def save_breaker(self, session: Session, row: BreakerRow) -> None:
        await session.fetch(_SQL["save_breaker"], row._asdict())

    async def pause(self, queue: str, by: str, reason: str, *, session: Session | None = None) -> None:
        parameters = {"name": queue, "by": by, "reason": reason}
        await (session or self._session).fetch(_SQL["pause"], parameters)

    async def resume(self, queue: str, *, session: Session | None = None) -> None:
        await (session or self._session).fetch(_SQL["resume"], {"name": queue})

    async def queues(self) -> list[QueueRow]:
        return [QueueRow._make(row) for row in await self._session.fetch(_SQL["queues"], {})]

    async def heartbeat(
        self,
        worker: str,
        code_version: str,
        queues: str,
        concurrency: int,
        in_flight: int,
        state: str,
        host: str = "",
        process: int = 0,
        workflows: str | None = None,
    ) -> None:
        parameters = {
            "id": worker,
            "code_version": code_version,
            "queues": queues,
            "concurrency": concurrency,
            "in_flight": in_flight,
            "state": state,
            "host": host,
            "process": process,
            "workflows": workflows,
        }
        await self._session.fetch(_SQL["heartbeat"], parameters)

    async def note_blocked(self, worker: str, seconds: float, step: BlockingStep | None) -> None:
        """Write a heartbeat for a worker whose event loop has not answered for that many seconds."""
        by = None if step is None else encode(step._asdict())
        await self._session.fetch(_SQL["note_blocked"], {"id": worker, "seconds": seconds, "by": by})

    async def blocking_runs(self) -> dict[str | None, str]:
        """Return the run whose step blocks the event loop, for each worker whose loop does not answer."""
        workers = await self.workers()
        return {worker.id: step.run_id for worker in workers if (step := worker.blocking_step) is not None}

    async def workers(self) -> list[WorkerRow]:
        return [WorkerRow._make(row) for row in await self._session.fetch(_SQL["workers"], {})]

    async def forget_workers(self, age: float) -> None:
        await self._session.fetch(_SQL["forget_workers"], {"age": age})


def _names(text: str) -> Sequence[object]:
    value = decode(text)
    return value if isinstance(value, list) else ()


def _beginning_with(prefix: str) -> dict[str, str]:
    beyond = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else chr(0x10FFFF)
    return {"first": prefix, "beyond": beyond}
