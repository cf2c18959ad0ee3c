"""The checker's queries: statements that read everything and return only what is wrong.

Each check is one statement and therefore reads one snapshot, so concurrent work does not look wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from redrive.store.audit import AuditStore
from redrive.store.database import Row, Session
from redrive.store.runs import RunKey
from redrive.store.statement import statements

_SQL = statements("verification", RunKey)
_RUNS = statements("runs")
PAGE = 5_000
IDS_AT_ONCE = 1_000


class WaitRow(NamedTuple):
    """An attempt and the wait after it; `ordinal` is its number among attempts of the same kind in the step.

    kind       charged, hinted (a server said when to retry), or released
    delay      None if no attempt followed, because all attempts were used up
    previous   the delay after the previous attempt of the same kind
    asked_for  1 if a server asked for a wait
    known      0 if the replay that it belongs to, and the policy of that replay, were removed
    """

    run_id: str
    step_index: int
    number: int
    kind: str
    ordinal: int
    category: str
    delay: float | None
    previous: float | None
    asked_for: int
    definition: str
    override: str | None
    known: int


class HolderRow(NamedTuple):
    """A name that holds work: a limit or a breaker; neither if it no longer exists."""

    name: str
    held: int
    since: float
    maximum: int | None
    in_use: int | None
    body: str | None
    updated_at: float | None
    now: float


class ExecutedRow(NamedTuple):
    """A run with one of its finished steps, or without any."""

    run_id: str
    org: str
    idempotency_key: str | None
    definition: str
    step_index: int
    state: str
    finished: int | None
    reached: int


class VerificationQueries:
    def __init__(self, database: Session, *, leeway: float, tolerance: float, most: int) -> None:
        self._database = database
        self.audit = AuditStore(database)
        self._parameters = {"leeway": leeway, "tolerance": tolerance, "most": most}

    async def ask(self, name: str, **parameters: object) -> list[Row]:
        return await self._database.fetch(_SQL[name], {**self._parameters, **parameters})

    async def populations(self) -> dict[str, int]:
        """Count the rows of each kind to check."""
        return {row[0]: row[1] for row in await self.ask("populations")}

    async def definition(self, digest: str) -> str | None:
        rows = await self._database.fetch(_RUNS["definition"], {"digest": digest})
        return str(rows[0][0]) if rows else None

    async def waits(self) -> AsyncIterator[WaitRow]:
        after = ""
        while rows := await self.ask("waits", after=after, size=PAGE):
            for wait in map(WaitRow._make, rows):
                # Another check finds attempts without a run.
                if wait.known and wait.definition is not None:
                    yield wait
            after = rows[-1][0]

    async def executed(self) -> AsyncIterator[ExecutedRow]:
        after = ""
        while rows := await self.ask("executed", after=after, size=PAGE):
            for row in rows:
                yield ExecutedRow._make(row)
            after = rows[-1][0]

    async def holders(self) -> list[HolderRow]:
        return [HolderRow._make(row) for row in await self.ask("holders")]

    async def first_held(self, held_by: str) -> tuple[str, int] | None:
        """Return the run to release next, and its epoch, which increases when the run is claimed."""
        rows = await self.ask("first_held", held_by=held_by)
        return (rows[0][0], rows[0][1]) if rows else None

    async def known(self, ids: Sequence[str]) -> set[str]:
        """Return the ids that belong to existing runs."""
        found: set[str] = set()
        for start in range(0, len(ids), IDS_AT_ONCE):
            several = [RunKey(run_id) for run_id in ids[start : start + IDS_AT_ONCE]]
            found |= {row[0] for row in await self._database.fetch_many(_SQL["known"], several)}
        return found
