"""Tallies: how much of what happened when, so that a plot need not look at what it is about.

Those of dead letters are kept by triggers, exactly; those of runs are what workers say now and then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.model.field import BigInt
from redrive.store.database import Session
from redrive.store.statement import statements

KEPT_SECONDS = 8 * 86_400.0


class Live(NamedTuple):
    """How many live dead letters there are; those that are open and will be redriven are `scheduled`."""

    open: int = 0
    scheduled: int = 0
    replaying: int = 0
    exhausted: int = 0


class TallyPart(NamedTuple):
    """How often something happened in one part of a time; `subject` is the state in which runs `ended`."""

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
        """So many runs have ended lately, by org and state."""
        await count_ended(self._session, ended)

    async def live(self, org: str) -> Live:
        """Exactly, however many there are."""
        rows = await self._session.fetch(_SQL["standing"], {"org": org})
        return Live(**{subject.lower(): number for subject, number in rows})

    async def flow(self, org: str, start: int, width: int) -> list[TallyPart]:
        """What has happened to dead letters, replays and runs since then, in parts of so many seconds."""
        rows = await self._session.fetch(_SQL["flow"], {"org": org, "start": start, "width": width})
        return [TallyPart._make(row) for row in rows]

    async def occurred(
        self, org: str, fingerprints: Sequence[str], start: int, width: int
    ) -> list[tuple[str, int, int]]:
        """Dead letters of these failures that came since then: fingerprint, part, and number; they add up."""
        rows = [
            FingerprintSpan(org=org, fingerprint=each, start=start, width=width)
            for each in dict.fromkeys(fingerprints)
        ]
        found = await self._session.fetch_many(_SQL["occurred"], rows) if rows else []
        return [(row[0], row[1], row[2]) for row in found]

    async def sum_up(self) -> None:
        """Tidy: on PostgreSQL every change is a row of its own at first."""
        await self._session.fetch(_SQL["sum_up"], {})

    async def remove_expired(self, most: int, age: float = KEPT_SECONDS) -> int:
        return len(await self._session.fetch(_SQL["remove_expired"], {"age": age, "most": most}))


async def count_ended(session: Session, ended: Mapping[tuple[str, str], int]) -> None:
    """In order of keys: two that share some then do not wait for each other crosswise."""
    rows = [EndedRuns(org, state, number) for (org, state), number in sorted(ended.items())]
    if rows:
        await session.fetch_many(_SQL["count_ended"], rows)
