"""Bulk replays: freezing what belongs to them, what stands in the way of it, and how far they are.

The row of an operation is locked first by whoever changes it or its planned items; what is under way is
settled with its run, without that lock. An item has the id of its operation and its position in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import NotFoundError
from redrive.model.operation import MAX_ITEMS, UNDER_WAY_NOTE, FailedAs, ReplayOperation
from redrive.model.replay import Replay, ReplayState
from redrive.policy.codec import encode
from redrive.policy.rollout import MAX_BATCH_SIZE, Score
from redrive.store.database import Row, Session
from redrive.store.dead_letter_filter import Filter
from redrive.store.replays import RefusedItem, why_not
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements, template, written

_SQL = statements("bulk_replays", ReplayOperation, RefusedItem)
_FREEZE, _MEMBER = template("bulk_replays", "_freeze"), template("bulk_replays", "_member")
MAX_LINES = 20
"""Of notes, fingerprints or dead letters that are waited for: the most frequent ones are told."""

_FIRST_ITEM = 1_000_000


class NewOperation(NamedTuple):
    id: str
    org: str
    mode: str
    selection: str
    options: str
    policy_override: str | None
    reason: str
    plan: str
    planned_by: str


class Obstacle(NamedTuple):
    """A planned item that cannot be replayed, or is not as it was planned, and why."""

    id: str
    position: int
    letter_id: str
    note: str


class _Standing(NamedTuple):
    """How the dead letter and the run of a planned item are, and how they were."""

    id: str
    position: int
    letter_id: str
    letter_state: str | None
    run_state: str | None
    run_step: int | None
    step: int
    fingerprint: str | None
    planned_fingerprint: str
    updated_at: float | None
    planned_updated_at: float

    @property
    def note(self) -> str:
        failed = self.run_state in ("DLQ_PENDING", "FAILED") and self.run_step == self.step
        if self.letter_state not in ("OPEN", "EXHAUSTED") or not failed:
            return why_not(self.letter_state, self.run_state, self.run_step, self.step)
        if self.fingerprint != self.planned_fingerprint:
            return "it has failed in another way since it was planned"
        return "it was changed since it was planned"


class ItemTally(NamedTuple):
    """What became of the items that were begun, and how many could be begun now: at most a batch."""

    running: int
    failed: int
    cancelled: int
    repeated: int
    ready: int

    def score(self, begun: int) -> Score:
        succeeded = begun - self.running - self.failed - self.cancelled
        return Score(begun, max(0, succeeded), self.failed, self.repeated)


class Forecast(NamedTuple):
    """What the planned items mean. Numbers of items, by names."""

    results_reused: int
    unsafe: int
    repeatable: int
    stations: tuple[tuple[str, int, int], ...]
    breakers: Mapping[str, int]
    paused_queues: Mapping[str, int]
    awaited_letters: Mapping[str, int]


class OperationSnapshot(NamedTuple):
    """An operation as it stands at `now`."""

    operation: ReplayOperation
    now: float


class BulkReplayStore:
    def __init__(self, session: Session) -> None:
        self._session = session

    # Planning

    async def freeze_ids(self, session: Session, item: Mapping[str, Any], ids: Sequence[str]) -> None:
        """Make these dead letters the items of an operation; at most one more than there may be."""
        await session.fetch(_SQL["freeze_ids"], {**item, "ids": encode(list(ids)), "most": MAX_ITEMS + 1})

    async def freeze(self, session: Session, item: Mapping[str, Any], letters: Filter) -> None:
        """The same with those that fulfil a condition."""
        text = f"{_FREEZE} ({_MEMBER} WHERE {letters.where}) AS member WHERE position <= :most"
        parameters = {**item, **letters.parameters, "most": MAX_ITEMS + 1}
        await session.fetch(written("freeze", text), parameters)

    async def unknown_ids(self, session: Session, org: str, ids: Sequence[str], most: int) -> list[str]:
        parameters = {"org": org, "ids": encode(list(ids)), "most": most}
        return [row[0] for row in await session.fetch(_SQL["unknown_ids"], parameters)]

    async def skip_unsafe(self, session: Session, operation_id: str, note: str) -> None:
        await session.fetch(_SQL["skip_unsafe"], {"id": operation_id, "note": note})

    async def forecast(self, session: Session, operation_id: str) -> Forecast:
        parameters = {"id": operation_id, "most": MAX_LINES}
        [(reused, unsafe, repeatable)] = await session.fetch(_SQL["effects"], parameters)
        stations = tuple(tuple(row) for row in await session.fetch(_SQL["stations"], parameters))
        names = ("breakers", "paused_queues", "awaited_letters")
        waits = [_numbers(await session.fetch(_SQL[name], parameters)) for name in names]
        return Forecast(int(reused), int(unsafe), int(repeatable), stations, *waits)

    async def members(self, session: Session, operation_id: str) -> list[Row]:
        """Dead letter, state, fingerprint and time of its last change, in order of positions."""
        return await session.fetch(_SQL["members"], {"id": operation_id})

    async def insert(self, session: Session, new: NewOperation) -> None:
        await session.fetch(_SQL["insert"], new._asdict())

    # What stands in the way

    async def obstacles(self, session: Session, operation_id: str) -> list[Obstacle]:
        """Planned items that cannot be replayed, or are not what they were."""
        return await self._obstacles(session, "obstacles", operation_id, MAX_ITEMS + 1)

    async def next_obstacles(self, session: Session, operation_id: str, most: int) -> list[Obstacle]:
        """Those among the items that are to be begun next."""
        return await self._obstacles(session, "next_obstacles", operation_id, most)

    async def _obstacles(self, session: Session, name: str, operation_id: str, most: int) -> list[Obstacle]:
        rows = await session.fetch(_SQL[name], {"id": operation_id, "most": most})
        found = [_Standing._make(row) for row in rows]
        return [
            Obstacle(id=each.id, position=each.position, letter_id=each.letter_id, note=each.note)
            for each in found
        ]

    async def blocked(self, session: Session, operation_id: str, org: str) -> list[Obstacle]:
        """Planned items that cannot be replayed, are not what they were, or will be reached by another
        operation that is under way."""
        changed = await self.obstacles(session, operation_id)
        known = {each.id for each in changed}
        rows = await session.fetch(_SQL["taken"], {"id": operation_id, "org": org})
        return changed + [
            Obstacle(id=item_id, position=position, letter_id=letter_id, note=other.join(UNDER_WAY_NOTE))
            for item_id, position, letter_id, other in rows
            if item_id not in known
        ]

    async def refuse(self, session: Session, obstacles: Sequence[Obstacle]) -> None:
        if obstacles:
            await session.fetch_many(_SQL["refuse"], [RefusedItem(each.id, each.note) for each in obstacles])

    async def refuse_blocked(self, session: Session, operation_id: str, note: str) -> bool:
        """Refuse what waits for a dead letter that nobody is replaying; is anything still planned?"""
        await session.fetch(_SQL["refuse_blocked"], {"id": operation_id, "note": note})
        return bool(await session.fetch(_SQL["planned"], {"id": operation_id}))

    async def cancel_planned(self, session: Session, operation_id: str, note: str) -> None:
        await session.fetch(_SQL["cancel_planned"], {"id": operation_id, "note": note})

    # Changing

    async def lock(self, session: Session, operation_id: str, org: str) -> OperationSnapshot:
        rows = await session.fetch(_SQL["lock"], {"id": _checked(operation_id), "org": org})
        if not rows:
            raise _not_found(operation_id)
        return _moment(rows[0])

    async def lock_running(self, session: Session, operation_id: str) -> OperationSnapshot | None:
        """None when it does not run any more, or somebody else drives it just now."""
        rows = await session.fetch(_SQL["lock_running"], {"id": operation_id})
        return _moment(rows[0]) if rows else None

    async def save(self, session: Session, operation: ReplayOperation) -> None:
        """Options that could not be read stay as they are stored."""
        options = encode(dict(operation.options)) if operation.options else None
        await session.fetch(_SQL["save"], {**operation.asdict(), "options": options})

    # Looking

    async def running(self) -> list[OperationSnapshot]:
        """The running operations of every org."""
        return [_moment(row) for row in await self._session.fetch(_SQL["running"], {})]

    async def tally(self, session: Session, operation_id: str) -> ItemTally:
        parameters = {"id": operation_id, "most": MAX_BATCH_SIZE}
        return ItemTally._make((await session.fetch(_SQL["tally"], parameters))[0])

    async def depends_on(self, session: Session, operation_id: str, breaker: str) -> bool:
        """Does a planned item depend on this breaker?"""
        parameters = {"id": operation_id, "breaker": breaker}
        return bool(await session.fetch(_SQL["depending"], parameters))

    async def get(self, operation_id: str, org: str) -> ReplayOperation:
        rows = await self._session.fetch(_SQL["get"], {"id": _checked(operation_id), "org": org})
        if not rows:
            raise _not_found(operation_id)
        return read_row(ReplayOperation, rows[0])

    async def page(self, org: str, size: int, cursor: str | None) -> list[ReplayOperation]:
        """The newest first; after `cursor`, the id of one of them."""
        name = "newest" if cursor is None else "older"
        rows = await self._session.fetch(_SQL[name], {"org": org, "size": size, "cursor": cursor})
        return read_rows(ReplayOperation, rows)

    async def items(
        self, operation_id: str, org: str, state: ReplayState | None, size: int, after: int
    ) -> list[Replay]:
        """In order of positions, after this one."""
        parameters: dict[str, Any] = {"id": operation_id, "org": org, "size": size}
        if state is None:
            bounds = {"after": item_id(operation_id, after), "last": item_id(operation_id, MAX_ITEMS + 1)}
            rows = await self._session.fetch(_SQL["items"], parameters | bounds)
        else:
            chosen = {"state": str(state), "position": after}
            rows = await self._session.fetch(_SQL["items_in_state"], parameters | chosen)
        return read_rows(Replay, rows)

    async def counts(self, session: Session, operation_id: str) -> dict[ReplayState, int]:
        """How many items are in each state."""
        rows = _numbers(await session.fetch(_SQL["counts"], {"id": operation_id}))
        return {state: rows.get(state, 0) for state in ReplayState}

    async def notes(self, session: Session, operation_id: str) -> dict[str, int]:
        """Why items were refused or skipped, and how many: the most frequent reasons."""
        return _numbers(await session.fetch(_SQL["notes"], {"id": operation_id, "most": MAX_LINES}))

    async def failures(self, session: Session, operation_id: str) -> dict[str, int]:
        """The fingerprints that items have failed with: the most frequent ones."""
        return _numbers(await session.fetch(_SQL["failures"], {"id": operation_id, "most": MAX_LINES}))

    async def failed_as(self, operation_id: str) -> list[FailedAs]:
        """The same, with how many of them had failed just so before."""
        parameters = {"id": operation_id, "most": MAX_LINES}
        return [FailedAs._make(row) for row in await self._session.fetch(_SQL["failed_as"], parameters)]

    async def under_way(self, org: str, most: int) -> list[ReplayOperation]:
        """Those that are started and not over, the newest first."""
        rows = await self._session.fetch(_SQL["under_way"], {"org": org, "most": most})
        return read_rows(ReplayOperation, rows)

    async def reached(self, org: str, fingerprint: str) -> list[tuple[str, int]]:
        """Which operations that are under way will reach dead letters of a failure, and how many of them."""
        asked = {"org": org, "fingerprint": fingerprint}
        return [(row[0], row[1]) for row in await self._session.fetch(_SQL["reached"], asked)]

    async def progress(self, org: str, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        """How many items of each of these are in each state, but for those that succeeded: they are many."""
        found: dict[str, dict[str, int]] = {each: dict.fromkeys(ReplayState, 0) for each in ids}
        for name, state, number in await self._session.fetch(
            _SQL["progress"], {"org": org, "ids": encode(list(ids))}
        ):
            found[name][state] = number
        return found

    async def span(self, session: Session, operation_id: str) -> tuple[float | None, float | None]:
        """When the first item was begun, and when the last of those that were begun ended."""
        [(first, last)] = await session.fetch(_SQL["span"], {"id": operation_id})
        return first, last


def item_id(operation_id: str, position: int) -> str:
    """Of equal length for all items, so that they sort by position wherever texts are sorted."""
    return f"{operation_id}:{_FIRST_ITEM + position}"


def _moment(row: Row) -> OperationSnapshot:
    *columns, now = row
    return OperationSnapshot(read_row(ReplayOperation, columns), now)


def _numbers(rows: Sequence[Row]) -> dict[str, int]:
    return {row[0]: row[1] for row in rows}


def _checked(operation_id: object) -> str:
    """PostgreSQL cannot even be asked for some texts."""
    if not isinstance(operation_id, str) or not operation_id.isprintable():
        raise _not_found(operation_id)
    return operation_id


def _not_found(operation_id: object) -> NotFoundError:
    return NotFoundError(f"there is no replay operation {operation_id!r}")
