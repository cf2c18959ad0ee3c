"""Runs: enqueueing, reading, cancelling, and removing them after the retention period."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from redrive.errors import ConflictError, DuplicateRowError, NotFoundError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import APPLICATION, Caller
from redrive.model.fact import fact
from redrive.model.field import RunId
from redrive.model.id import is_in_order
from redrive.model.query import Count
from redrive.model.replay import ReplayState
from redrive.model.run import (
    AfterFailure,
    Cancellation,
    NewRun,
    Place,
    Run,
    RunEvent,
    RunState,
)
from redrive.model.run_order import MAX_IN_ORDER, RunOrder
from redrive.model.step import AttemptRecord, FinishedStep
from redrive.policy.codec import encode
from redrive.store.audit import AuditStore
from redrive.store.database import Session, findable
from redrive.store.replays import LetterChange, ReplayStore, Settled, Settlement, outcomes
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import Statement, statements
from redrive.store.tallies import count_ended
from redrive.store.work_row import WorkRow


class DefinitionRow(NamedTuple):
    digest: str
    workflow: str
    body: str


class RunOrigin(NamedTuple):
    """`owner` is the user who may retry the run; `requeued_at` is when it was last replayed."""

    owner: str | None
    requeued_at: float | None


class CancelledRun(NamedTuple):
    """The answer to a cancellation; `replays` are the replays and dead letters that it ended."""

    answer: Cancellation
    replays: Sequence[Settled | LetterChange] = ()


class RunKey(NamedTuple):
    id: RunId


class OrderKey(NamedTuple):
    org: str
    order_key: str


FIRST_KEY = OrderKey("", "")
"""Comes before all order keys."""


_SQL = statements("runs", Run, NewRun, FinishedStep, AttemptRecord, RunEvent, WorkRow)


class RunStore:
    def __init__(self, session: Session, replays: ReplayStore, audit: AuditStore) -> None:
        self._session = session
        self._replays = replays
        self._audit = audit
        self._defined: set[str] = set()

    async def enqueue(self, runs: Sequence[NewRun], definitions: Sequence[DefinitionRow]) -> list[str]:
        """Store new runs; return their ids, or the ids of existing runs with the same idempotency key.

        Repeating the call with the same ids changes nothing, so a caller may repeat it after a lost answer.
        """
        await self.define(definitions)
        with suppress(DuplicateRowError):  # an earlier call was committed, and its answer was lost
            if _are_plain(runs):
                return await _insert(self._session, runs)
        if len(runs) == 1 or all(run.idempotency_key is None for run in runs):
            return await self.enqueue_within(self._session, runs)

        async with self._session.transaction() as session:  # a conflict rejects all of them
            return await self.enqueue_within(session, runs)

    async def enqueue_pieces(
        self, pieces: Iterable[Sequence[NewRun]], definitions: Sequence[DefinitionRow]
    ) -> list[str]:
        """Store runs in batches, all or nothing; the next batch is built while the database writes one.

        All batches resemble the first one. `pieces` is iterated again if an earlier call has stored its runs.
        """
        await self.define(definitions)
        with suppress(DuplicateRowError):
            if _are_plain(next(iter(pieces))):
                async with self._session.transaction() as session:
                    return await _one_ahead(pieces, partial(_insert, session))
        async with self._session.transaction() as session:
            return await _one_ahead(pieces, partial(self.enqueue_within, session))

    async def define(self, definitions: Sequence[DefinitionRow]) -> None:
        """Store workflow definitions, outside any caller's transaction: others would wait for its end."""
        fresh = [definition for definition in definitions if definition.digest not in self._defined]
        if fresh:
            await self._session.fetch_many(_SQL["define"], sorted(fresh))
            self._defined |= {definition.digest for definition in fresh}

    async def enqueue_within(self, session: Session, runs: Sequence[NewRun]) -> list[str]:
        """Store new runs in the caller's transaction. Their definitions must be stored already."""
        stored: set[str] = set()
        for batch in _by_statement(runs):
            stored |= {row[0] for row in await session.fetch_many(_enqueue(batch), batch)}
        if len(stored) == len(runs):
            return [run.id for run in runs]
        return [run.id if run.id in stored else await _existing(session, run) for run in runs]

    async def newest_definitions(self, workflows: Iterable[str]) -> list[str]:
        """Return the digest of the newest definition of each of these workflows."""
        parameters = {"workflows": encode(sorted(workflows))}
        return [row[0] for row in await self._session.fetch(_SQL["newest_definitions"], parameters)]

    async def definition(self, digest: str) -> str:
        rows = await self._session.fetch(_SQL["definition"], {"digest": digest})
        if not rows:
            raise NotFoundError(f"found no workflow definition {digest}")
        return str(rows[0][0])

    async def get(self, run_id: str, org: str) -> Run:
        rows = await self._session.fetch(_SQL["get"], {"id": findable(run_id), "org": org})
        if not rows:
            raise NotFoundError(f"found no run {run_id!r:.200}")
        return read_row(Run, rows[0])

    async def all(self) -> list[Run]:
        """Return all runs of all orgs, oldest first. Only for small databases, as in tests."""
        return read_rows(Run, await self._session.fetch(_SQL["all"], {}))

    async def outcome(self, run_id: str, org: str) -> tuple[str, str | None]:
        """Return the state of a run, and its result if it has one."""
        rows = await self._session.fetch(_SQL["outcome"], {"id": run_id, "org": org})
        if not rows:
            raise NotFoundError(f"found no run {run_id!r}")
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

    async def origin(self, run_id: str, org: str) -> RunOrigin:
        rows = await self._session.fetch(_SQL["origin"], {"id": findable(run_id), "org": org})
        if not rows:
            raise NotFoundError(f"found no run {run_id!r:.200}")
        return RunOrigin._make(rows[0])

    async def order(self, run_id: str, org: str) -> RunOrder | None:
        """Return the order key of a run and its place in the order; None if it has no key."""
        if not is_in_order(run_id):
            return None
        parameters = {"id": run_id, "org": org, "most": MAX_IN_ORDER + 1}
        for key, after_failure, waits_for, *numbers in await self._session.fetch(_SQL["order"], parameters):
            before, behind = (Count(min(most, MAX_IN_ORDER), most > MAX_IN_ORDER) for most in numbers)
            choice = None if after_failure is None else AfterFailure(after_failure)
            return RunOrder(key, choice, waits_for, before, behind)
        return None

    async def settle_orders(self, after: OrderKey, most: int) -> OrderKey:
        """Settle up to `most` order keys again whose first run will never end; return the last key looked at.

        Triggers settle the order whenever a run ends, so this finds only rows that were changed by hand.
        """
        rows = await self._session.fetch(_SQL["heads"], {**after._asdict(), "most": most})
        for run_id, _, _, is_stuck in rows:
            if is_stuck:
                await self._session.fetch(_SQL["settle_order"], {"id": run_id})
        return OrderKey(*rows[-1][1:3]) if len(rows) == most else FIRST_KEY

    async def count_by_state(self, org: str) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["count_by_state"], {"org": org})}

    async def count_by_place(self, org: str) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["count_by_place"], {"org": org})}

    async def cancel(self, run_id: str, org: str, by: str = APPLICATION, reason: str = "") -> CancelledRun:
        """Cancel a run: end it if it is not executing, otherwise request cancellation from its worker."""
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
                    ended = [entry._replace(actor=caller.name) for entry in outcomes(settled)]
                    await self._audit.append(session, [entry, *ended])
                    return CancelledRun(answer, settled)
            # Neither statement found it: it has ended, or a worker gave it back in the meantime.
            if (await self.get(run_id, org)).place == Place.ENDED:
                return CancelledRun(Cancellation.ENDED)

    async def _cancel(
        self, session: Session, run_id: str, caller: Caller
    ) -> tuple[Cancellation | None, list[Settled | LetterChange]]:
        parameters = {"id": run_id, "org": caller.org}
        if await session.fetch(_SQL["cancel_idle"], parameters):
            await count_ended(session, {(caller.org, RunState.CANCELLED): 1})
            state, note = ReplayState.CANCELLED, fact("run_cancelled", by=caller.name).encode()
            settlement = Settlement(run_id, 0, state, note=note, by=caller.name)
            letters = await self._replays.lock_letters(session, [settlement])
            return Cancellation.CANCELLED, await self._replays.settle(session, [settlement], letters)
        if await session.fetch(_SQL["cancel_leased"], parameters):
            return Cancellation.REQUESTED, []
        return None, []

    async def remove_expired(self, age: float, most: int) -> int:
        """Remove runs that ended, or whose dead letter was closed, more than `age` seconds ago.

        Keep runs with a live dead letter. Remove at most `most` of each kind; return the number removed.
        """
        async with self._session.transaction() as session:
            found = await self._expired(session, age, most)
            # Check again now that the runs are locked: a dead letter may have been reopened before.
            live = {row[0] for row in await session.fetch_many(_SQL["live"], found)} if found else set()
            ids = [run for run in found if run.id not in live]
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
    """Write the batches in order. While the database writes one, the next is built and queued."""
    ids: list[str] = []
    writing: list[asyncio.Task[list[str]]] = []
    try:
        for piece in pieces:
            writing.append(asyncio.create_task(write(piece)))
            await asyncio.sleep(0)  # let the task send its batch before the next one is built
            if len(writing) > 1:
                ids += await writing[0]
                del writing[0]
        for task in writing:
            ids += await task
        return ids
    finally:  # after an error, no task may use the transaction after its end
        await asyncio.gather(*writing, return_exceptions=True)


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


_shared = attrgetter(
    "org", "workflow", "definition", "queue", "priority", "delay", "at", "tags", "metadata", "owner"
)


def _are_alike(runs: Sequence[NewRun]) -> bool:
    """Return whether runs differ only in inputs and keys and are ready now: a faster statement exists."""
    if any(run.at is not None or run.delay > 0 for run in runs[:1]):
        return False
    return len(set(map(_shared, runs))) <= 1


def _are_plain(runs: Sequence[NewRun]) -> bool:
    """Return whether runs are alike and have no keys, so that only the same runs can conflict."""
    if any(run.order_key is not None for run in runs):
        return False
    return all(run.idempotency_key is None for run in runs) and _are_alike(runs)


def _by_statement(runs: Sequence[NewRun]) -> Iterator[Sequence[NewRun]]:
    """Separate runs with an order key, which keep their order, from others.

    The others are sorted by idempotency key, so that concurrent batches cannot deadlock. The statement for
    runs with an order key does that itself.
    """
    in_order = [run for run in runs if run.order_key is not None]
    others = [run for run in runs if run.order_key is None] if in_order else runs
    if others:
        yield sorted(others, key=lambda run: (str(run.org), run.idempotency_key or ""))
    if in_order:
        yield in_order


async def _insert(session: Session, runs: Sequence[NewRun]) -> list[str]:
    """Store runs that are new; raise DuplicateRowError if one is not."""
    await session.fetch_many(_SQL["enqueue_new"], runs)
    return [run.id for run in runs]


def _enqueue(runs: Sequence[NewRun]) -> Statement:
    if runs[0].order_key is not None:
        return _SQL["enqueue_in_order"]
    return _SQL["enqueue" if _are_alike(runs) else "enqueue_mixed"]


async def _existing(session: Session, run: NewRun) -> str:
    """Return the id of the existing run with the same idempotency key or the same id."""
    parameters = {"org": run.org, "idempotency_key": run.idempotency_key}
    while True:
        for known_id, known_hash in await session.fetch(_SQL["known"], parameters):
            return _same_request(run, known_id, known_hash)
        if await session.fetch(_SQL["present"], {"id": run.id}):
            return run.id
        # Retention has removed the existing run in the meantime.
        if await session.fetch_many(_enqueue([run]), [run]):
            return run.id


def _same_request(run: NewRun, known_id: str, known_hash: str) -> str:
    if known_hash != run.request_hash:
        raise ConflictError(
            f"the idempotency key {run.idempotency_key!r} belongs to run {known_id}, which was started "
            f"with a different workflow or payload; use a different key",
            run_id=known_id,
        )
    return known_id
