"""The recorded attempts of an org, and the times when its steps succeeded, in pages, without payloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from redrive.store.database import Session
from redrive.store.statement import statements

_SQL = statements("attempt_history")
PAGE = 5_000


class TriedRow(NamedTuple):
    """A recorded attempt. Failed attempts are always recorded, successful ones only in some cases.

    decision        why it was retried or not, as JSON; None if a worker of an earlier version recorded it
    queue           the queue of the run, while the run is in this step
    success_number  the attempt that finally succeeded
    edited          1 if the run was replayed with an edited payload
    """

    run_id: str
    step_index: int
    number: int
    outcome: str
    started_at: float | None
    ended_at: float
    delay: float | None
    category: str | None
    error_class: str | None
    reason: str
    decision: str | None
    definition: str
    workflow: str
    queue: str | None
    success_number: int | None
    success_started_at: float | None
    edited: int


class SucceededRow(NamedTuple):
    """A step that succeeded without a replay; `at` is None for a run without such a step."""

    run_id: str
    definition: str
    step_index: int
    at: float | None


class Numbers(NamedTuple):
    """The amount of history to read."""

    runs: int
    attempts: int


class AttemptHistory:
    """The history of runs submitted at `since` or later, whose ids sort after `after`."""

    def __init__(self, session: Session, org: str, since: float = 0.0, after: str = "") -> None:
        self._session = session
        self._org = org
        self._since = since
        self._after = after

    async def numbers(self) -> Numbers:
        [row] = await self._session.fetch(_SQL["numbers"], self._page(self._after))
        return Numbers._make(row)

    async def tried(self) -> AsyncIterator[list[TriedRow]]:
        """Yield recorded attempts, ordered by run, step and number. A page never splits a run."""
        after = self._after
        while rows := await self._session.fetch(_SQL["tried"], self._page(after)):
            yield [TriedRow._make(row) for row in rows]
            after = rows[-1][0]

    async def succeeded(self) -> AsyncIterator[list[SucceededRow]]:
        after = self._after
        while rows := await self._session.fetch(_SQL["succeeded"], self._page(after)):
            yield [SucceededRow._make(row) for row in rows]
            after = rows[-1][0]

    async def definitions(self) -> list[str]:
        """Return the latest definition of each workflow that the org has runs of."""
        return [row[0] for row in await self._session.fetch(_SQL["definitions"], {"org": self._org})]

    def _page(self, after: str) -> dict[str, str | float]:
        return {"org": self._org, "since": self._since, "after": after, "size": PAGE}
