"""Leases: who may execute what, and until when."""

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
    """What a worker writes beside the claims it takes."""

    token: int
    worker: str
    code_version: str
    ttl: float


class Renewal(NamedTuple):
    id: RunId
    token: BigInt
    ttl: float


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
        without: Sequence[str] = (),
        floor: float = FROM_THE_BEGINNING,
    ) -> list[Claim]:
        """Take up to `most` ready runs in the order of their sort keys, from `floor` on."""
        kinds = {"workflows": _listed(workflows), "without": _listed(without or None)}
        parameters = {"queue": queue, "most": most, "floor": floor, **kinds, **holder._asdict()}
        rows = await self._session.fetch(_SQL["claim"], parameters)
        return sorted(read_rows(Claim, rows), key=lambda claim: claim.order)

    async def claim_alone(
        self, queue: str, holder: Holder, workflows: Sequence[str] | None = None
    ) -> list[Claim]:
        """Take one run that is suspected of killing its worker."""
        kinds = {"workflows": _listed(workflows), "without": None}
        parameters = {"queue": queue, **kinds, **holder._asdict()}
        return read_rows(Claim, await self._session.fetch(_SQL["claim_alone"], parameters))

    async def begin_alone(self, claim: Claim) -> bool:
        """Note that it is executed alone from now on: only then its worker's death speaks against it."""
        fence = {"id": claim.id, "token": claim.token, "epoch": claim.epoch}
        return bool(await self._session.fetch(_SQL["begin_alone"], fence))

    async def adopt(self, token: int, worker: str) -> list[Claim]:
        """The claims that were committed although the answer never arrived."""
        rows = await self._session.fetch(_SQL["adopt"], {"token": token, "worker": worker})
        return sorted(read_rows(Claim, rows), key=lambda claim: claim.order)

    async def reclaim(self, token: int, ttl: float, most: int) -> list[Claim]:
        """Take over expired leases; the old token is void. Worker and attempt are the lost ones."""
        rows = await self._session.fetch(_SQL["reclaim"], {"token": token, "ttl": ttl, "most": most})
        return read_rows(Claim, rows)

    async def failed(self, session: Session, run_id: str, org: str) -> Claim | None:
        """The last claim of a run that has failed, locked until the transaction ends."""
        rows = await session.fetch(_SQL["failed"], {"id": run_id, "org": org})
        return read_row(Claim, rows[0]) if rows else None

    async def renew(self, renewals: Sequence[Renewal]) -> dict[tuple[str, int], bool]:
        """Prolong leases; those that are not in the answer belong to somebody else, or have ended.

        One that somebody is writing at this moment is passed over: it is kept, but not prolonged (False).
        """
        rows = await self._session.fetch_many(_SQL["renew"], renewals)
        renewed = {(row[0], row[1]): True for row in rows}
        passed_over = [each for each in renewals if (each.id, each.token) not in renewed]
        if passed_over:
            rows = await self._session.fetch_many(_SQL["kept"], passed_over)
            renewed |= {(row[0], row[1]): False for row in rows}
        return renewed

    async def cancelling(self, worker: str) -> list[tuple[str, int]]:
        """The worker's claims whose run somebody has cancelled."""
        rows = await self._session.fetch(_SQL["cancelling"], {"worker": worker})
        return [(row[0], row[1]) for row in rows]

    async def ready_queues(self, queues: Sequence[str]) -> set[str]:
        """Those of the queues that are not paused and have something ready."""
        rows = await self._session.fetch(_SQL["ready_queues"], {"queues": encode(list(queues))})
        return {row[0] for row in rows}

    async def lonely_queues(self, queues: Sequence[str], workflows: Sequence[str] | None = None) -> set[str]:
        """Those of the queues that are not paused and have something to be executed alone."""
        parameters = {"queues": encode(list(queues)), "workflows": _listed(workflows)}
        return {row[0] for row in await self._session.fetch(_SQL["lonely_queues"], parameters)}

    async def promote(self, most: int) -> list[str]:
        """Make ready what has become due. The queues, one for each run."""
        return [row[0] for row in await self._session.fetch(_SQL["promote"], {"most": most})]

    async def next_due(self) -> float | None:
        """Seconds until the next waiting run is due."""
        [row] = await self._session.fetch(_SQL["next_due"], {})
        return None if row[0] is None else float(row[0])


def _listed(names: Sequence[str] | None) -> str | None:
    return None if names is None else encode(list(names))
