"""Stored payloads of runs: inputs and results, for revealing them and for re-encrypting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.errors import NotFoundError
from redrive.model.field import RunId
from redrive.store.database import Session, findable
from redrive.store.statement import statements


class RunPayloads(NamedTuple):
    id: str
    input: str
    step_input: str | None
    result: str | None
    metadata: str | None


class StepPayload(NamedTuple):
    run_id: str
    step_index: int
    output: str


class AttemptPayload(NamedTuple):
    run_id: str
    step_index: int
    number: int
    output: str


class NewRunPayloads(NamedTuple):
    """The new payloads of a run, written only if the old ones are unchanged."""

    id: RunId
    input: str
    step_input: str | None
    result: str | None
    metadata: str | None
    new_input: str
    new_step_input: str | None
    new_result: str | None
    new_metadata: str | None


class NewStepPayload(NamedTuple):
    run_id: RunId
    step_index: int
    output: str
    new_output: str


class NewAttemptPayload(NamedTuple):
    run_id: RunId
    step_index: int
    number: int
    output: str
    new_output: str


class EventPayload(NamedTuple):
    id: str
    payload: str


class NewEventPayload(NamedTuple):
    id: RunId
    payload: str
    new_payload: str


_OLD = (RunPayloads, StepPayload, AttemptPayload, EventPayload)
_NEW = (NewRunPayloads, NewStepPayload, NewAttemptPayload, NewEventPayload)
_SQL = statements("payloads", *_OLD, *_NEW)
_BEFORE_ALL = "0" * 32


class Payloads:
    """Reads and rewrites payloads. Payloads that do not start with `current` are stale."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def of_letter(self, session: Session, letter_id: str, org: str) -> tuple[str, str]:
        """Return the input of the failed step and the id of its run."""
        rows = await session.fetch(_SQL["of_letter"], {"id": findable(letter_id), "org": org})
        if not rows or rows[0][0] is None:
            raise NotFoundError(
                f"found no dead letter {letter_id!r:.200}, or its payload was removed with its run"
            )
        return rows[0][0], rows[0][1]

    async def stale_runs(self, current: str, size: int, after: str = "") -> list[RunPayloads]:
        return [RunPayloads._make(row) for row in await self._stale("stale_runs", current, size, after=after)]

    async def stale_steps(
        self, current: str, size: int, run_id: str = "", step_index: int = -1
    ) -> list[StepPayload]:
        rows = await self._stale("stale_steps", current, size, run_id=run_id, step_index=step_index)
        return [StepPayload._make(row) for row in rows]

    async def stale_attempts(
        self, current: str, size: int, run_id: str = "", step_index: int = -1, number: int = -1
    ) -> list[AttemptPayload]:
        place = {"run_id": run_id, "step_index": step_index, "number": number}
        rows = await self._stale("stale_attempts", current, size, **place)
        return [AttemptPayload._make(row) for row in rows]

    async def stale_events(self, current: str, size: int, after: str = _BEFORE_ALL) -> list[EventPayload]:
        return [EventPayload._make(row) for row in await self._stale("stale_events", current, size, id=after)]

    async def rewrite_events(self, rows: Sequence[NewEventPayload]) -> None:
        await self._session.fetch_many(_SQL["rewrite_event"], rows)

    async def rewrite_runs(self, rows: Sequence[NewRunPayloads]) -> None:
        await self._session.fetch_many(_SQL["rewrite_run"], rows)

    async def rewrite_steps(self, rows: Sequence[NewStepPayload]) -> None:
        await self._session.fetch_many(_SQL["rewrite_step"], rows)

    async def rewrite_attempts(self, rows: Sequence[NewAttemptPayload]) -> None:
        await self._session.fetch_many(_SQL["rewrite_attempt"], rows)

    async def _stale(self, name: str, current: str, size: int, **place: Any) -> Sequence[Any]:
        parameters = {"current": current, "length": len(current), "size": size, **place}
        return await self._session.fetch(_SQL[name], parameters)
