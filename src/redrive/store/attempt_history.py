"""The recorded attempts of an org, and when its steps succeeded, page by page. No payload is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from redrive.store.database import Session
from redrive.store.statement import statements

_SQL = statements("attempt_history")
PAGE = 5_000


class TriedRow(NamedTuple):
    """An attempt that was written down: all but those that succeeded, and some of these.

    asked           the explanation, where it says that a server asked for a wait
    queue           that of the run, as long as it is in this step
    success_number  the attempt that succeeded in the end, and when it started
    edited          1 when the run was replayed with a payload that somebody has changed
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
    asked: str | None
    definition: str
    workflow: str
    queue: str | None
    success_number: int | None
    success_started_at: float | None
    edited: int


class SucceededRow(NamedTuple):
    """A step that has succeeded without a replay; `at` is None for a run in which none has."""

    run_id: str
    definition: str
    step_index: int
    at: float | None


class Numbers(NamedTuple):
    """How much there is to be read."""

    runs: int
    attempts: int


class AttemptHistory:
    """Of the runs that were submitted at `since` or later; `after` is an id that they all lie behind."""

    def __init__(self, session: Session, org: str, since: float = 0.0, after: str = "") -> None:
        self._session = session
        self._org = org
        self._since = since
        self._after = after

    async def numbers(self) -> Numbers:
        [row] = await self._session.fetch(_SQL["numbers"], self._page(self._after))
        return Numbers._make(row)

    async def tried(self) -> AsyncIterator[list[TriedRow]]:
        """Pages of whole runs, by run, step and number."""
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
        """Of the workflows that the org has runs of, as they were defined last."""
        return [row[0] for row in await self._session.fetch(_SQL["definitions"], {"org": self._org})]

    def _page(self, after: str) -> dict[str, str | float]:
        return {"org": self._org, "since": self._since, "after": after, "size": PAGE}
