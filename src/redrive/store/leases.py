"""Leases: which worker may execute which run, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.claim import Claim
from redrive.model.field import BigInt, RunId
from redrive.policy.codec import encode
from redrive.store.database import Session
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow


class Holder(NamedTuple):
    """The values that a worker writes with the leases it takes."""

    token: int
    worker: str
    code_version: str
    ttl: float


class Renewal(NamedTuple):
    id: RunId
    token: BigInt
    ttl: float


class NextDue(NamedTuple):
    """The seconds until the next waiting run is due (None without one), and the database's current time."""

    seconds: float | None
    now: float


FROM_THE_BEGINNING = float("-inf")

_SQL = statements("leases", Claim, Renewal, WorkRow)


class Leases:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def claim(
        self,
        queue: str,
        most: int,
        holder: Holder,
        workflows: Sequence[str] | None = None,
        floor: float = FROM_THE_BEGINNING,
        max_bytes: int | None = None,
    ) -> list[Claim]:
        """Lease up to `most` ready runs to a worker, in order of their sort keys, starting at `floor`.

        Only runs of `workflows` are read; None stands for all workflows. `max_bytes` limits the size of
        their inputs; the last run may exceed it.
        """
        names = await self._names(workflows)
        parameters = {"queue": queue, "most": most, "floor": floor, "workflows": names, **holder._asdict()}
        if max_bytes is None:
            rows = await self._session.fetch(_SQL["claim"], parameters)
        else:
            rows = await self._session.fetch(_SQL["claim_within"], {**parameters, "bytes": max_bytes})
        return sorted(read_rows(Claim, rows), key=lambda claim: claim.order)

    async def claim_alone(
        self, queue: str, holder: Holder, workflows: Sequence[str] | None = None
    ) -> list[Claim]:
        """Lease one run that must execute in isolation, because it may have killed its worker."""
        names = await self._names(workflows)
        parameters = {"queue": queue, "workflows": names, **holder._asdict()}
        return read_rows(Claim, await self._session.fetch(_SQL["claim_alone"], parameters))

    async def ready_work(self) -> list[tuple[str, str]]:
        """Return the distinct queues and workflows of ready runs."""
        return [(row[0], row[1]) for row in await self._session.fetch(_SQL["ready_work"], {})]

    async def _names(self, workflows: Sequence[str] | None) -> str:
        """Encode the names; those of all workflows that a claim could take, if none are given."""
        if workflows is None:
            workflows = [row[0] for row in await self._session.fetch(_SQL["all_workflows"], {})]
        return encode(list(workflows))

    async def begin_alone(self, claim: Claim) -> bool:
        """Record that the run now executes in isolation: only then does a worker crash count against it."""
        fence = {"id": claim.id, "token": claim.token, "epoch": claim.epoch}
        return bool(await self._session.fetch(_SQL["begin_alone"], fence))

    async def adopt(self, token: int, worker: str) -> list[Claim]:
        """Return the claims of a commit whose answer was lost."""
        rows = await self._session.fetch(_SQL["adopt"], {"token": token, "worker": worker})
        return sorted(read_rows(Claim, rows), key=lambda claim: claim.order)

    async def reclaim(
        self, token: int, ttl: float, most: int, floor: float = FROM_THE_BEGINNING
    ) -> list[Claim]:
        """Take over leases that have expired since `floor`. Their old tokens become void.

        The returned claims name the lost worker and its attempt.
        """
        parameters = {"token": token, "ttl": ttl, "most": most, "floor": floor}
        return read_rows(Claim, await self._session.fetch(_SQL["reclaim"], parameters))

    async def reclaimed(self, token: int) -> list[Claim]:
        """Return the claims of a takeover whose answer was lost."""
        return read_rows(Claim, await self._session.fetch(_SQL["reclaimed"], {"token": token}))

    async def failed(self, session: Session, run_id: str, org: str) -> Claim | None:
        """Return the last claim of a failed run, and lock the run until the transaction ends."""
        rows = await session.fetch(_SQL["failed"], {"id": run_id, "org": org})
        return read_row(Claim, rows[0]) if rows else None

    async def renew(self, renewals: Sequence[Renewal]) -> dict[tuple[str, int], bool]:
        """Renew leases. Leases missing from the answer have ended or belong to another worker.

        A lease whose row is locked by a write is skipped: it is still held, but not renewed (False).
        """
        rows = await self._session.fetch_many(_SQL["renew"], renewals)
        renewed = {(row[0], row[1]): True for row in rows}
        passed_over = [renewal for renewal in renewals if (renewal.id, renewal.token) not in renewed]
        if passed_over:
            rows = await self._session.fetch_many(_SQL["kept"], passed_over)
            renewed |= {(row[0], row[1]): False for row in rows}
        return renewed

    async def cancelling(self, worker: str) -> list[tuple[str, int]]:
        """Return the worker's claims whose cancellation was requested."""
        rows = await self._session.fetch(_SQL["cancelling"], {"worker": worker})
        return [(row[0], row[1]) for row in rows]

    async def ready_queues(self, queues: Sequence[str]) -> set[str]:
        """Return the queues that are not paused and have ready runs."""
        rows = await self._session.fetch(_SQL["ready_queues"], {"queues": encode(list(queues))})
        return {row[0] for row in rows}

    async def isolated_queues(
        self, queues: Sequence[str], workflows: Sequence[str] | None = None
    ) -> set[str]:
        """Return the queues that are not paused and have runs that must execute in isolation."""
        parameters = {"queues": encode(list(queues)), "workflows": await self._names(workflows)}
        return {row[0] for row in await self._session.fetch(_SQL["isolated_queues"], parameters)}

    async def promote(self, most: int, floor: float = FROM_THE_BEGINNING) -> list[str]:
        """Make waiting runs ready that became due since `floor`; return the queue of each."""
        rows = await self._session.fetch(_SQL["promote"], {"most": most, "floor": floor})
        return [row[0] for row in rows]

    async def next_due(self, floor: float = FROM_THE_BEGINNING) -> NextDue:
        [row] = await self._session.fetch(_SQL["next_due"], {"floor": floor})
        return NextDue._make(row)
