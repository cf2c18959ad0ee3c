"""The doctor's queries about work, for both databases. Each is limited, or answered from an index."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from redrive.model.run import HELD_BY_TASK, HELD_BY_WORKFLOW
from redrive.model.stream import StreamState
from redrive.model.worker import SILENT_SECONDS
from redrive.policy.codec import decode_stored
from redrive.store.database import Session
from redrive.store.limits import BreakerRow, Limits, QueueRow, WorkerRow
from redrive.store.rows import read_rows
from redrive.store.run_listing import Depth, RunListing
from redrive.store.statement import statements
from redrive.store.tallies import Live

_SQL = statements("inspection", StreamState)

MAX_COUNT = 10_000
MAX_ORDER_KEYS = 1_000
SEALED = '{"$sealed":"'
"""The prefix of an encrypted payload; the id of its key follows."""
KEY_ID = 8


class Expired(NamedTuple):
    """Expired leases of one worker that no worker has taken over."""

    worker: str | None
    number: int
    oldest_seconds: float


class Overdue(NamedTuple):
    number: int
    oldest_seconds: float


class Overrun(NamedTuple):
    """A step that blocks the event loop of its worker, and has been running for longer than its timeout."""

    run_id: str
    worker: str | None
    step: str
    seconds: float
    timeout: float


class BlockedOrders(NamedTuple):
    """Runs that wait for the dead letter of an earlier run with their order key.

    Only the first order keys are looked at, and up to 10,000 runs of each are counted.
    """

    runs: int
    order_keys: int
    letter_id: str


class Letters(NamedTuple):
    """Live dead letters of all orgs.

    oldest_seconds  the age of the oldest dead letter that needs attention
    fullest         the number in the org that has most of them
    stuck           the number that wait for one that no automatic redrive will resolve
    first_stuck     the id of one of these
    """

    live: Live
    oldest_seconds: float | None
    fullest: int
    stuck: int = 0
    first_stuck: str | None = None


class BrokenHold(NamedTuple):
    breaker: BreakerRow
    held: int


class Inspection:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._limits = Limits(session)
        self._lists = RunListing(session)

    async def expired(self, leeway: float) -> list[Expired]:
        rows = await self._session.fetch(_SQL["expired"], {"leeway": leeway, "most": MAX_COUNT})
        return [Expired(worker, number, now - since) for worker, number, since, now in rows]

    async def overdue(self, leeway: float) -> Overdue:
        [row] = await self._session.fetch(_SQL["overdue"], {"leeway": leeway, "most": MAX_COUNT})
        return Overdue(row[0], 0.0 if row[1] is None else row[2] - row[1])

    async def overruns(self, leeway: float) -> list[Overrun]:
        """Return the steps that block their worker `leeway` seconds past their timeout, the oldest first.

        Its claim does not tell whether a step is running: it may wait for a thread. So the worker must have
        reported that the step blocks its event loop, and must still report. Its leases may have expired,
        since a blocked worker doesn't renew them.
        """
        blocking = {
            worker.id: worker.blocking_step.run_id
            for worker in await self._limits.workers()
            if worker.blocking_step is not None and worker.seconds_silent <= SILENT_SECONDS
        }
        if not blocking:
            return []
        rows = await self._session.fetch(_SQL["executing"], {"leeway": leeway, "most": MAX_COUNT})
        overruns = []
        for run_id, worker, step_index, seconds, body in rows:
            if blocking.get(worker or "") != run_id:
                continue
            definition: Any = decode_stored(body)
            step = definition["steps"][step_index]
            if seconds > step["timeout"] + leeway:
                overruns.append(Overrun(run_id, worker, step["name"], seconds, step["timeout"]))
        return overruns

    async def depths(self) -> list[Depth]:
        return await self._lists.overall_depths()

    async def queues(self) -> list[QueueRow]:
        return await self._limits.queues()

    async def workers(self) -> list[WorkerRow]:
        return await self._limits.workers()

    async def breakers(self) -> list[BrokenHold]:
        return [
            BrokenHold(row, await self._limits.count_held(f"breaker:{row.name}", MAX_COUNT))
            for row in await self._limits.breakers()
        ]

    async def unknown_work(self) -> dict[str, int]:
        """Count the runs that no worker knows, by what holds them."""
        holders = [
            holder
            for prefix in (HELD_BY_TASK, HELD_BY_WORKFLOW)
            for holder in await self._limits.holders(prefix)
        ]
        return {holder: await self._limits.count_held(holder, MAX_COUNT) for holder in holders}

    async def letters(self) -> Letters:
        standings: Counter[str] = Counter()
        orgs: Counter[str] = Counter()
        for org, subject, number in await self._session.fetch(_SQL["letters"], {}):
            standings[subject] += number
            orgs[org] += number if subject != "STUCK" else 0
        [[oldest, now]] = await self._session.fetch(_SQL["oldest_letter"], {})
        age = None if oldest is None else now - oldest
        [[stuck, first]] = await self._session.fetch(_SQL["stuck_letters"], {"most": MAX_COUNT})
        return Letters(Live.of(standings), age, max(orgs.values(), default=0), stuck, first)

    async def blocked_orders(self) -> BlockedOrders | None:
        """Count the runs that wait for dead letters, and name the dead letter for which most of them wait."""
        limits = {"keys": MAX_ORDER_KEYS, "most": MAX_COUNT}
        rows = await self._session.fetch(_SQL["blocked_orders"], {"org": "", "order_key": "", **limits})
        blocking = {letter_id: runs for letter_id, runs in rows if runs}
        if not blocking:
            return None
        runs = min(sum(blocking.values()), MAX_COUNT)
        return BlockedOrders(runs, len(blocking), max(blocking, key=blocking.__getitem__))

    async def streams(self) -> tuple[list[StreamState], float]:
        """Return the streams of all orgs, up to a limit, and the time of the database."""
        rows = await self._session.fetch(_SQL["streams"], {"most": MAX_COUNT})
        [[now]] = await self._session.fetch(_SQL["now"], {})
        return read_rows(StreamState, rows), now

    async def sealed(self) -> dict[str, int]:
        """Return the ids of the keys that encrypt inputs of the first unfinished runs, with their counts."""
        parameters = {"mark": SEALED, "from": len(SEALED) + 1, "length": KEY_ID, "most": MAX_COUNT // 10}
        rows = await self._session.fetch(_SQL["sealed"], parameters)
        return {row[0]: row[1] for row in rows if ":" not in row[0]}
