"""Bulk replays of an organization: plan, start, pause, resume, cancel and inspect them.

`failures.bulk_replay_planner` makes the plans, and `failures.bulk_replay_driver` executes started operations.
Every change is stored when the call returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from redrive.errors import DriftError, InvalidValueError, TransitionError
from redrive.failures.bulk_replay_planner import BulkReplayOptions, BulkReplayPlanner, plan_of
from redrive.failures.parts import FailureParts
from redrive.failures.preconditions import check_number_replayed
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.event import OperationChanged
from redrive.model.fact import fact
from redrive.model.operation import (
    MAX_ITEMS,
    Drift,
    Drifting,
    FailedAs,
    ItemPage,
    OperationPage,
    OperationReport,
    Plan,
    ReplayOperation,
)
from redrive.model.replay import OPERATION_TRANSITIONS, OperationState, ReplayState
from redrive.policy.bounds import choice, require_kind, require_whole
from redrive.policy.rollout import RolloutPlan
from redrive.policy.user_text import clean_reason
from redrive.store.bulk_replays import Obstacle, OperationSnapshot
from redrive.store.database import Session
from redrive.words.fact import text_of
from redrive.words.number import noun, plural
from redrive.words.state import status

MAX_PAGE_SIZE = 500
MAX_CHANGES = 100
CANCELLED = fact("operation_cancelled")


class BulkReplays:
    def __init__(self, parts: FailureParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._operations = parts.store.operations
        self._planner = BulkReplayPlanner(parts)
        self._caller = parts.caller

    async def create(self, **request: Unpack[BulkReplayOptions]) -> Plan:
        """Freeze the selected dead letters and forecast their replay; see BulkReplayOptions."""
        return await self._planner.plan(request)

    # Control

    async def start(
        self, operation_id: str, *, accept_drift: bool = False, expect: int | None = None
    ) -> ReplayOperation:
        """Start a planned operation.

        Raises DriftError when dead letters of the plan have changed; with `accept_drift`, they are left out
        instead. Also raises it when the number of letters to replay differs from `expect`.
        """
        if expect is not None:
            require_whole("expect", expect, 0, MAX_ITEMS)
        async with self._store.database.transaction() as session:
            before, now = await self._locked(session, operation_id, "started")
            drifted = await self._operations.blocked(session, operation_id, before.org)
            if drifted and not accept_drift:
                raise _drift(before, drifted)
            await self._operations.refuse(session, drifted)
            remaining = (await self._operations.counts(session, operation_id))[ReplayState.PLANNED]
            check_number_replayed(remaining, expect)
            after = before.replace(
                state=OperationState.RUNNING, started_by=self._caller.name, started_at=now, updated_at=now
            )
            detail = {"reason": before.reason, "left_out": len(drifted)}
            entries = [self._entry(after, Action.OPERATION_STARTED, detail)]
            if not remaining:
                after = after.replace(state=OperationState.DONE, ended_at=now)
                entries.append(self._entry(after, Action.OPERATION_FINISHED, {"begun": 0}, by=SELF))
            await self._operations.save(session, after)
            await self._store.audit.append(session, entries)
        self._emit(before, after, "")
        return after

    async def pause(self, operation_id: str, reason: str = "") -> ReplayOperation:
        """Start no more items until the operation is resumed; running items finish."""
        why = clean_reason(reason, self._parts.redactor)
        async with self._store.database.transaction() as session:
            before, now = await self._locked(session, operation_id, "paused")
            after = before.replace(state=OperationState.PAUSED, updated_at=now)
            await self._save(session, after, Action.OPERATION_PAUSED, why)
        return self._emit(before, after, why)

    async def resume(self, operation_id: str, reason: str = "") -> ReplayOperation:
        """Continue a paused or stopped operation.

        After an automatic stop, it starts with a canary again, and earlier failures no longer count.
        """
        why = clean_reason(reason, self._parts.redactor)
        async with self._store.database.transaction() as session:
            before, now = await self._locked(session, operation_id, "resumed")
            after = before.replace(state=OperationState.RUNNING, updated_at=now)
            if before.state == OperationState.STOPPED:
                after = after.replace(
                    options=await self._pardoned(session, before), ramped_at=None, stopped_because=None
                )
            await self._save(session, after, Action.OPERATION_RESUMED, why)
        return self._emit(before, after, why)

    async def cancel(self, operation_id: str, reason: str = "") -> ReplayOperation:
        """Start no more items; running items finish."""
        why = clean_reason(reason, self._parts.redactor)
        async with self._store.database.transaction() as session:
            before, now = await self._locked(session, operation_id, "cancelled")
            await self._operations.cancel_planned(session, operation_id, CANCELLED)
            after = before.replace(state=OperationState.CANCELLED, ended_at=now, updated_at=now)
            await self._save(session, after, Action.OPERATION_CANCELLED, why)
        return self._emit(before, after, why)

    async def _locked(self, session: Session, operation_id: str, verb: str) -> OperationSnapshot:
        """Lock the operation. Raise TransitionError unless its state allows `verb`, a cause in the table."""
        moment = await self._operations.lock(session, operation_id, self._caller.org)
        allowed = OPERATION_TRANSITIONS.before(verb)
        if moment.operation.state not in allowed:
            raise TransitionError(
                f"the bulk replay {operation_id} is {status(moment.operation.state)}; "
                f"it can be {verb} only while it is {' or '.join(map(status, allowed))}"
            )
        return moment

    async def _pardoned(self, session: Session, operation: ReplayOperation) -> Mapping[str, Any]:
        tally = await self._operations.tally(session, operation.id)
        rollout = RolloutPlan.from_json(operation.options)
        return rollout._replace(pardoned=tally.score(operation.released)).to_json()

    async def _save(self, session: Session, after: ReplayOperation, action: Action, reason: str) -> None:
        await self._operations.save(session, after)
        await self._store.audit.append(session, [self._entry(after, action, {"reason": reason})])

    def _entry(
        self, operation: ReplayOperation, action: Action, detail: Mapping[str, Any], by: str | None = None
    ) -> NewEntry:
        return NewEntry(
            org=operation.org,
            actor=by or self._caller.name,
            action=action,
            subjects=(operation.id,),
            detail=detail,
        )

    def _emit(self, before: ReplayOperation, after: ReplayOperation, reason: str) -> ReplayOperation:
        self._parts.event_bus.emit(
            OperationChanged(
                org=after.org, operation_id=after.id, before=before.state, after=after.state, reason=reason
            )
        )
        return after

    # Queries

    async def view(self, operation_id: str) -> ReplayOperation:
        return await self._operations.get(operation_id, self._caller.org)

    async def drift(self, operation_id: str) -> Drifting:
        """The dead letters that have changed since planning, and how many would still be replayed."""
        operation, session = await self.view(operation_id), self._store.database
        planned = (await self._operations.counts(session, operation.id))[ReplayState.PLANNED]
        drifted = await self._operations.blocked(session, operation.id, operation.org)
        return Drifting(planned - len(drifted), len(drifted), _changes(drifted))

    async def report(self, operation_id: str) -> OperationReport:
        """The plan of an operation, its results so far, and why items failed or were refused."""
        operation, session = await self.view(operation_id), self._store.database
        counts = await self._operations.counts(session, operation_id)
        return OperationReport(
            operation,
            plan_of(operation),
            {str(state): number for state, number in counts.items()},
            await self._operations.failures(session, operation_id),
            await self._operations.notes(session, operation_id),
            *await self._operations.span(session, operation_id),
        )

    async def items(
        self,
        operation_id: str,
        *,
        state: ReplayState | str | None = None,
        size: int = 50,
        cursor: str | None = None,
    ) -> ItemPage:
        """A page of the items of an operation, in the order in which they start."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        wanted = None if state is None else choice("state", state, ReplayState)
        operation = await self.view(operation_id)
        found = await self._operations.items(operation.id, operation.org, wanted, size + 1, _position(cursor))
        last = str(found[size - 1].position) if len(found) > size else None
        return ItemPage(tuple(found[:size]), last)

    async def failures(self, operation_id: str) -> Sequence[FailedAs]:
        """The failures of the items of an operation by fingerprint, the most frequent first."""
        return await self._operations.failed_as((await self.view(operation_id)).id)

    async def active(self) -> Sequence[ReplayOperation]:
        """Running, paused and stopped operations, the newest first."""
        return await self._operations.active(self._caller.org, MAX_PAGE_SIZE)

    async def reaching(self, fingerprint: str) -> Mapping[str, int]:
        """Count the letters of this failure that running and paused operations have yet to start.

        The keys are the ids of the operations.
        """
        return dict(await self._operations.reached(self._caller.org, fingerprint))

    async def progress(self, operations: Sequence[ReplayOperation]) -> Mapping[str, Mapping[str, int]]:
        """How many items of each operation are in each state."""
        found = await self._operations.progress(self._caller.org, [operation.id for operation in operations])
        for operation in operations:  # items without a counted state have succeeded
            counted = sum(found[operation.id].values())
            found[operation.id][ReplayState.SUCCEEDED] = max(0, plan_of(operation).selected - counted)
        return found

    async def list(self, *, size: int = 50, cursor: str | None = None) -> OperationPage:
        """A page of operations, the newest first."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        if cursor is not None:
            await self.view(cursor)
        found = await self._operations.page(self._caller.org, size + 1, cursor)
        return OperationPage(tuple(found[:size]), found[size - 1].id if len(found) > size else None)


def _drift(operation: ReplayOperation, obstacles: Sequence[Obstacle]) -> DriftError:
    changes = _changes(obstacles)
    first = changes[0]
    return DriftError(
        f"{plural(len(obstacles), 'dead letter')} {noun(len(obstacles), 'has', 'have')} changed since "
        f"operation {operation.id} was planned, for example {first.letter_id}: {text_of(first.change)}. Plan "
        f"again, or leave out changed dead letters with accept_drift=True",
        changes=changes,
        number=len(obstacles),
    )


def _changes(obstacles: Sequence[Obstacle]) -> tuple[Drift, ...]:
    return tuple(Drift(item.position, item.letter_id, item.reason) for item in obstacles[:MAX_CHANGES])


def _position(cursor: str | None) -> int:
    if cursor is None:
        return 0
    require_kind("cursor", cursor, str)
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 6:
        raise InvalidValueError(
            f"the cursor {cursor!r} is not from a page; start from the first page, without a cursor"
        )
    return int(cursor)
