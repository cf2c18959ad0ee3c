"""Runs: putting them in, looking them up, cancelling them, removing them when they are old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from redrive.errors import ConflictError, NotFoundError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import APPLICATION, Caller
from redrive.model.field import RunId
from redrive.model.replay import ReplayState
from redrive.model.run import Cancellation, NewRun, Place, Run, RunEvent, RunState
from redrive.model.step import AttemptRecord, FinishedStep
from redrive.store.audit import AuditStore
from redrive.store.database import Session, findable
from redrive.store.replays import ReplayStore, Resolved, Settled, Settlement, outcomes
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import Statement, statements
from redrive.store.tallies import count_ended
from redrive.store.work_row import WorkRow


class DefinitionRow(NamedTuple):
    digest: str
    workflow: str
    body: str


class CancelledRun(NamedTuple):
    """`replays` have ended with the run."""

    answer: Cancellation
    replays: Sequence[Settled | Resolved] = ()


class RunKey(NamedTuple):
    id: RunId


_SQL = statements("runs", Run, NewRun, FinishedStep, AttemptRecord, RunEvent, WorkRow)


class RunStore:
    def __init__(self, session: Session, replays: ReplayStore, audit: AuditStore) -> None:
        self._session = session
        self._replays = replays
        self._audit = audit
        self._defined: set[str] = set()

    async def enqueue(self, runs: Sequence[NewRun], definitions: Sequence[DefinitionRow]) -> list[str]:
        """Store new runs: their ids, or that of the run that has the same idempotency key already.

        Doing it again with the same ids changes nothing, so whoever does not know whether it was done may.
        """
        await self.define(definitions)
        if len(runs) == 1 or all(run.idempotency_key is None for run in runs):
            return await self.enqueue_within(self._session, runs)

        async with self._session.transaction() as session:  # a conflict refuses all of them
            return await self.enqueue_within(session, runs)

    async def enqueue_pieces(
        self, pieces: Iterable[Sequence[NewRun]], definitions: Sequence[DefinitionRow]
    ) -> list[str]:
        """The same in pieces, all or nothing; each is made while the one before is being written."""
        await self.define(definitions)
        async with self._session.transaction() as session:
            return await _one_ahead(pieces, partial(self.enqueue_within, session))

    async def define(self, definitions: Sequence[DefinitionRow]) -> None:
        """Store what runs consist of. Not in somebody's transaction: others would wait for its end."""
        fresh = [each for each in definitions if each.digest not in self._defined]
        if fresh:
            await self._session.fetch_many(_SQL["define"], sorted(fresh))
            self._defined |= {each.digest for each in fresh}

    async def enqueue_within(self, session: Session, runs: Sequence[NewRun]) -> list[str]:
        """The same, in somebody's transaction. The definitions must be stored already."""
        # In order of keys: two batches that share some then do not wait for each other crosswise.
        ordered = sorted(runs, key=lambda run: (str(run.org), run.idempotency_key or ""))
        stored = {row[0] for row in await session.fetch_many(_enqueue(runs), ordered)}
        if len(stored) == len(runs):
            return [run.id for run in runs]
        return [run.id if run.id in stored else await _existing(session, run) for run in runs]

    async def definition(self, digest: str) -> str:
        rows = await self._session.fetch(_SQL["definition"], {"digest": digest})
        if not rows:
            raise NotFoundError(f"the definition {digest} is not in the database")
        return str(rows[0][0])

    async def get(self, run_id: str, org: str) -> Run:
        rows = await self._session.fetch(_SQL["get"], {"id": findable(run_id), "org": org})
        if not rows:
            raise NotFoundError(f"there is no run {run_id!r:.200}")
        return read_row(Run, rows[0])

    async def all(self) -> list[Run]:
        """Every run of every org, oldest first: for small databases, as in tests."""
        return read_rows(Run, await self._session.fetch(_SQL["all"], {}))

    async def outcome(self, run_id: str, org: str) -> tuple[str, str | None]:
        """The state of a run, and its result where it has one."""
        rows = await self._session.fetch(_SQL["outcome"], {"id": run_id, "org": org})
        if not rows:
            raise NotFoundError(f"there is no run {run_id!r}")
        return rows[0][0], rows[0][1]

    async def steps(self, run_id: str, org: str) -> list[FinishedStep]:
        rows = await self._session.fetch(_SQL["steps"], {"id": run_id, "org": org})
        return read_rows(FinishedStep, rows)

    async def attempts(self, run_id: str, org: str) -> list[AttemptRecord]:
        rows = await self._session.fetch(_SQL["attempts"], {"id": run_id, "org": org})
        return read_rows(AttemptRecord, rows)

    async def events(self, run_id: str, org: str) -> list[RunEvent]:
        rows = await self._session.fetch(_SQL["events"], {"id": run_id, "org": org})
        return read_rows(RunEvent, rows)

    async def count_by_state(self, org: str) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["count_by_state"], {"org": org})}

    async def count_by_place(self, org: str) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["count_by_place"], {"org": org})}

    async def cancel(self, run_id: str, org: str, by: str = APPLICATION, reason: str = "") -> CancelledRun:
        """End a run that no worker executes; tell the worker of one that is executed."""
        caller = Caller(org, by)
        while True:
            async with self._session.transaction() as session:
                answer, settled = await self._cancel(session, run_id, caller)
                if answer is not None:
                    detail = {"answer": str(answer), **({"reason": reason} if reason else {})}
                    entry = NewEntry(
                        org=caller.org,
                        actor=caller.name,
                        action=Action.RUN_CANCELLED,
                        subjects=(run_id,),
                        detail=detail,
                    )
                    ended = [each._replace(actor=caller.name) for each in outcomes(settled)]
                    await self._audit.append(session, [entry, *ended])
                    return CancelledRun(answer, settled)
            # Neither idle nor leased: it has ended, or a worker has given it back in between.
            if (await self.get(run_id, org)).place == Place.ENDED:
                return CancelledRun(Cancellation.ENDED)

    async def _cancel(
        self, session: Session, run_id: str, caller: Caller
    ) -> tuple[Cancellation | None, list[Settled | Resolved]]:
        parameters = {"id": run_id, "org": caller.org}
        if await session.fetch(_SQL["cancel_idle"], parameters):
            await count_ended(session, {(caller.org, RunState.CANCELLED): 1})
            state, note = ReplayState.CANCELLED, f"the run was cancelled by {caller.name}"
            settlement = Settlement(run_id, 0, state, note=note, by=caller.name)
            letters = await self._replays.lock_letters(session, [settlement])
            return Cancellation.CANCELLED, await self._replays.settle(session, [settlement], letters)
        if await session.fetch(_SQL["cancel_leased"], parameters):
            return Cancellation.REQUESTED, []
        return None, []

    async def remove_expired(self, age: float, most: int) -> int:
        """Remove runs that ended, or whose dead letter was closed, more than `age` seconds ago.

        Never one with a live dead letter. At most `most` of either kind.
        """
        async with self._session.transaction() as session:
            found = await self._expired(session, age, most)
            # Asked again now that the runs are locked: one may have been reopened before.
            live = {row[0] for row in await session.fetch_many(_SQL["live"], found)} if found else set()
            ids = [each for each in found if each.id not in live]
            for name in _OF_A_RUN if ids else ():
                await session.fetch_many(_SQL[name], ids)
            for name in ("delete_items", "delete_operations"):
                await session.fetch(_SQL[name], {"age": age})
            return len(ids)

    async def _expired(self, session: Session, age: float, most: int) -> list[RunKey]:
        parameters = {"age": age, "most": most}
        succeeded = await session.fetch(_SQL["expired"], parameters)
        failed = await session.fetch(_SQL["expired_failures"], parameters)
        return [RunKey(row[0]) for row in (*succeeded, *failed)]


async def _one_ahead(
    pieces: Iterable[Sequence[NewRun]], write: Callable[[Sequence[NewRun]], Coroutine[Any, Any, list[str]]]
) -> list[str]:
    ids: list[str] = []
    writing: asyncio.Task[list[str]] | None = None
    try:
        for piece in pieces:
            ids += [] if writing is None else await writing
            writing = asyncio.create_task(write(piece))
            await asyncio.sleep(0)  # it is sent before the next piece is made
        return ids if writing is None else ids + await writing
    finally:
        if writing is not None and not writing.done():  # the next piece could not be made
            await asyncio.wait({writing})


_OF_A_RUN = (
    "delete_attempts",
    "delete_steps",
    "delete_events",
    "delete_notes",
    "delete_dependencies",
    "delete_dead_letters",
    "delete_replays",
    "delete_run",
)


_shared = attrgetter("org", "workflow", "definition", "queue", "priority", "delay", "at", "tags", "metadata")


def _enqueue(runs: Sequence[NewRun]) -> Statement:
    """Most batches differ only in what each run is given, and are ready at once: they have a shorter way."""
    alike = len(set(map(_shared, runs))) <= 1
    plain = alike and all(run.at is None and run.delay <= 0 for run in runs[:1])
    return _SQL["enqueue" if plain else "enqueue_mixed"]


async def _existing(session: Session, run: NewRun) -> str:
    """The run that is already there: by the same idempotency key, or by the same id."""
    parameters = {"org": run.org, "idempotency_key": run.idempotency_key}
    while True:
        for known_id, known_hash in await session.fetch(_SQL["known"], parameters):
            return _same_request(run, known_id, known_hash)
        if await session.fetch(_SQL["present"], {"id": run.id}):
            return run.id
        # What was there has been removed in between, by retention.
        if await session.fetch_many(_enqueue([run]), [run]):
            return run.id


def _same_request(run: NewRun, known_id: str, known_hash: str) -> str:
    if known_hash != run.request_hash:
        raise ConflictError(
            f"the idempotency key {run.idempotency_key!r} belongs to run {known_id}, which was started "
            f"with another workflow or another payload; use another key for other work",
            run_id=known_id,
        )
    return known_id
