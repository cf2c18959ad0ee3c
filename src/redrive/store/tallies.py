"""Tallies: counts of events per period, so that charts need not read dead letters or runs.

Triggers keep the exact tallies of dead letters. Workers report the tallies of runs at intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.model.field import BigInt
from redrive.store.database import Session
from redrive.store.statement import statements

KEPT_SECONDS = 8 * 86_400.0


class Live(NamedTuple):
    """Counts of live dead letters. `scheduled` counts open ones that will be redriven automatically.

    A scheduled letter that waits for one that no automatic redrive resolves counts as `open`.
    """

    open: int = 0
    scheduled: int = 0
    replaying: int = 0
    exhausted: int = 0

    @classmethod
    def of(cls, stored: Mapping[str, int]) -> Live:
        """Return the counts from the tallies by subject and the number of `STUCK` letters."""
        stuck = stored.get("STUCK", 0)
        return cls(
            open=stored.get("OPEN", 0) + stuck,
            scheduled=stored.get("SCHEDULED", 0) - stuck,
            replaying=stored.get("REPLAYING", 0),
            exhausted=stored.get("EXHAUSTED", 0),
        )


class TallyPart(NamedTuple):
    """The number of events in one bucket of a period; the `subject` of ended runs is their state."""

    figure: str
    subject: str
    place: int
    number: int


class EndedRuns(NamedTuple):
    org: str
    state: str
    number: BigInt


class FingerprintSpan(NamedTuple):
    org: str
    fingerprint: str
    start: int
    width: int


_SQL = statements("tallies", EndedRuns, FingerprintSpan)


class Tallies:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def count_ended(self, ended: Mapping[tuple[str, str], int]) -> None:
        """Add the numbers of runs that ended recently, by org and state."""
        await count_ended(self._session, ended)

    async def live(self, org: str) -> Live:
        """Count the live dead letters of an org exactly, however many there are."""
        rows = await self._session.fetch(_SQL["standing"], {"org": org})
        return Live.of(dict(map(tuple, rows)))

    async def flow(self, org: str, start: int, width: int) -> list[TallyPart]:
        """Count events of dead letters, replays and runs since `start`, in buckets of `width` seconds."""
        rows = await self._session.fetch(_SQL["flow"], {"org": org, "start": start, "width": width})
        return [TallyPart._make(row) for row in rows]

    async def occurred(
        self, org: str, fingerprints: Sequence[str], start: int, width: int
    ) -> list[tuple[str, int, int]]:
        """Count new dead letters of these failures since `start`.

        Returns fingerprint, bucket and number; rows with the same fingerprint and bucket add up.
        """
        rows = [
            FingerprintSpan(org=org, fingerprint=fingerprint, start=start, width=width)
            for fingerprint in dict.fromkeys(fingerprints)
        ]
        found = await self._session.fetch_many(_SQL["occurred"], rows) if rows else []
        return [(row[0], row[1], row[2]) for row in found]

    async def sum_up(self) -> None:
        """Compact the tallies: on PostgreSQL, every change first inserts a row."""
        await self._session.fetch(_SQL["sum_up"], {})

    async def remove_expired(self, most: int, age: float = KEPT_SECONDS) -> int:
        return len(await self._session.fetch(_SQL["remove_expired"], {"age": age, "most": most}))


async def count_ended(session: Session, ended: Mapping[tuple[str, str], int]) -> None:
    """Add to the tallies of ended runs, sorted by key, so that concurrent transactions cannot deadlock."""
    rows = [EndedRuns(org, state, number) for (org, state), number in sorted(ended.items())]
    if rows:
        await session.fetch_many(_SQL["count_ended"], rows)
