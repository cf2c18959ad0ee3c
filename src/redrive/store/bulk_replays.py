"""Bulk replays: their frozen selection of dead letters, obstacles to replaying them, and their progress.

Lock the row of an operation before changing it or its planned items. An item in progress is settled together
with its run, without that lock. The id of an item consists of the id of its operation and its position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import NotFoundError
from redrive.model.fact import CountedFact, Fact, fact, read_fact
from redrive.model.operation import MAX_ITEMS, FailedAs, ReplayOperation
from redrive.model.replay import Replay, ReplayState
from redrive.policy.codec import encode
from redrive.policy.rollout import MAX_BATCH_SIZE, Score
from redrive.store.database import Row, Session
from redrive.store.dead_letter_filter import Filter
from redrive.store.replays import ItemSituation, RefusedItem
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import compose, statements, template

_SQL = statements("bulk_replays", ReplayOperation, RefusedItem)
_FREEZE, _MEMBER, _SELECTED = (template("bulk_replays", name) for name in ("_freeze", "_member", "_selected"))
MAX_LINES = 20
"""How many of the most frequent notes, fingerprints or awaited dead letters are returned."""

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
    """A planned item that can't be replayed or has changed since it was planned, and why."""

    id: str
    position: int
    letter_id: str
    reason: Fact


class ItemTally(NamedTuple):
    """The outcomes of started items; `ready` items could start now, counted up to one batch."""

    running: int
    failed: int
    cancelled: int
    repeated: int
    ready: int

    def score(self, begun: int) -> Score:
        succeeded = begun - self.running - self.failed - self.cancelled
        return Score(begun, max(0, succeeded), self.failed, self.repeated)


class Station(NamedTuple):
    """The planned items that start at one step of one definition, whose body is JSON."""

    definition: str
    body: str
    step_index: int
    items: int


class Forecast(NamedTuple):
    """The consequences of the planned items, as numbers of items."""

    results_reused: int
    unsafe: int
    repeatable: int
    stations: tuple[Station, ...]
    breakers: Mapping[str, int]
    paused_queues: Mapping[str, int]
    awaited_letters: Mapping[str, int]


class OperationSnapshot(NamedTuple):
    """An operation as read at `now`."""

    operation: ReplayOperation
    now: float


class BulkReplayStore:
    def __init__(self, session: Session) -> None:
        self._session = session

    # Planning

    async def freeze_ids(self, session: Session, item: Mapping[str, Any], ids: Sequence[str]) -> None:
        """Make these dead letters the items of an operation: at most MAX_ITEMS + 1, to detect an excess."""
        await session.fetch(_SQL["freeze_ids"], {**item, "ids": encode(list(ids)), "most": MAX_ITEMS + 1})

    async def freeze(self, session: Session, item: Mapping[str, Any], letters: Filter) -> None:
        """Make the dead letters that match a filter the items of an operation; see `freeze_ids`."""
        text = f"{_FREEZE} ({_MEMBER} WHERE {letters.where}) {_SELECTED}"
        parameters = {**item, **letters.parameters, "most": MAX_ITEMS + 1}
        await session.fetch(compose("freeze", text), parameters)

    async def unknown_ids(self, session: Session, org: str, ids: Sequence[str], most: int) -> list[str]:
        parameters = {"org": org, "ids": encode(list(ids)), "most": most}
        return [row[0] for row in await session.fetch(_SQL["unknown_ids"], parameters)]

    async def skip_unsafe(self, session: Session, operation_id: str, reason: Fact) -> None:
        await session.fetch(_SQL["skip_unsafe"], {"id": operation_id, "note": reason.encode()})

    async def forecast(self, session: Session, operation_id: str) -> Forecast:
        parameters = {"id": operation_id, "most": MAX_LINES}
        [(reused, unsafe, repeatable)] = await session.fetch(_SQL["effects"], parameters)
        stations = tuple(map(Station._make, await session.fetch(_SQL["stations"], parameters)))
        names = ("breakers", "paused_queues", "awaited_letters")
        waits = [_numbers(await session.fetch(_SQL[name], parameters)) for name in names]
        return Forecast(int(reused), int(unsafe), int(repeatable), stations, *waits)

    async def members(self, session: Session, operation_id: str) -> list[Row]:
        """Return the dead letter, state, fingerprint and last change of each item, by position."""
        return await session.fetch(_SQL["members"], {"id": operation_id})

    async def insert(self, session: Session, new: NewOperation) -> None:
        await session.fetch(_SQL["insert"], new._asdict())

    # Obstacles

    async def obstacles(self, session: Session, operation_id: str) -> list[Obstacle]:
        """Return planned items that cannot be replayed or have changed since planning."""
        rows = await session.fetch(_SQL["obstacles"], {"id": operation_id, "most": MAX_ITEMS + 1})
        return [
            Obstacle(item_id, position, letter_id, ItemSituation(*situation).obstacle)
            for item_id, position, letter_id, *situation in rows
        ]

    async def blocked(self, session: Session, operation_id: str, org: str) -> list[Obstacle]:
        """Return the obstacles, and items that another operation in progress will replay."""
        changed = await self.obstacles(session, operation_id)
        known = {obstacle.id for obstacle in changed}
        rows = await session.fetch(_SQL["taken"], {"id": operation_id, "org": org})
        return changed + [
            Obstacle(
                id=item_id,
                position=position,
                letter_id=letter_id,
                reason=fact("in_other_replay", operation=other),
            )
            for item_id, position, letter_id, other in rows
            if item_id not in known
        ]

    async def override(self, session: Session, operation_id: str, station: Station, policy: str) -> None:
        """Set the retry policy, as JSON, of the planned items at a station."""
        parameters = {"definition": station.definition, "step_index": station.step_index, "policy": policy}
        await session.fetch(_SQL["override"], {"id": operation_id, **parameters})

    async def refuse(self, session: Session, obstacles: Sequence[Obstacle]) -> None:
        if obstacles:
            await session.fetch_many(
                _SQL["refuse"], [RefusedItem(obstacle.id, obstacle.reason.encode()) for obstacle in obstacles]
            )

    async def refuse_blocked(self, session: Session, operation_id: str, reason: Fact) -> bool:
        """Refuse items that wait for a dead letter outside any replay; return whether planned ones remain."""
        await session.fetch(_SQL["refuse_blocked"], {"id": operation_id, "note": reason.encode()})
        return bool(await session.fetch(_SQL["planned"], {"id": operation_id}))

    async def cancel_planned(self, session: Session, operation_id: str, reason: Fact) -> None:
        await session.fetch(_SQL["cancel_planned"], {"id": operation_id, "note": reason.encode()})

    # Changing

    async def lock(self, session: Session, operation_id: str, org: str) -> OperationSnapshot:
        rows = await session.fetch(_SQL["lock"], {"id": _checked(operation_id), "org": org})
        if not rows:
            raise _not_found(operation_id)
        return _snapshot(rows[0])

    async def lock_running(self, session: Session, operation_id: str) -> OperationSnapshot | None:
        """Lock a running operation; None if it no longer runs, or another driver has locked it."""
        rows = await session.fetch(_SQL["lock_running"], {"id": operation_id})
        return _snapshot(rows[0]) if rows else None

    async def save(self, session: Session, operation: ReplayOperation) -> None:
        """Save an operation. Stored options that could not be read stay unchanged."""
        options = encode(dict(operation.options)) if operation.options else None
        stopped = operation.stopped_because
        written = {"options": options, "stopped_because": None if stopped is None else stopped.encode()}
        await session.fetch(_SQL["save"], operation.asdict() | written)

    # Reading

    async def running(self) -> list[OperationSnapshot]:
        """Return the running operations of all orgs."""
        return [_snapshot(row) for row in await self._session.fetch(_SQL["running"], {})]

    async def tally(self, session: Session, operation_id: str) -> ItemTally:
        parameters = {"id": operation_id, "most": MAX_BATCH_SIZE}
        return ItemTally._make((await session.fetch(_SQL["tally"], parameters))[0])

    async def depends_on(self, session: Session, operation_id: str, breaker: str) -> bool:
        """Return whether a planned item depends on this breaker."""
        parameters = {"id": operation_id, "breaker": breaker}
        return bool(await session.fetch(_SQL["depending"], parameters))

    async def get(self, operation_id: str, org: str) -> ReplayOperation:
        rows = await self._session.fetch(_SQL["get"], {"id": _checked(operation_id), "org": org})
        if not rows:
            raise _not_found(operation_id)
        return read_row(ReplayOperation, rows[0])

    async def page(self, org: str, size: int, cursor: str | None) -> list[ReplayOperation]:
        """List operations, newest first; only those older than the one with the id `cursor`."""
        name = "newest" if cursor is None else "older"
        rows = await self._session.fetch(_SQL[name], {"org": org, "size": size, "cursor": cursor})
        return read_rows(ReplayOperation, rows)

    async def items(
        self, operation_id: str, org: str, state: ReplayState | None, size: int, after: int
    ) -> list[Replay]:
        """List items by position; only those after the position `after`."""
        parameters: dict[str, Any] = {"id": operation_id, "org": org, "size": size}
        if state is None:
            bounds = {"after": item_id(operation_id, after), "last": item_id(operation_id, MAX_ITEMS + 1)}
            rows = await self._session.fetch(_SQL["items"], parameters | bounds)
        else:
            chosen = {"state": str(state), "position": after}
            rows = await self._session.fetch(_SQL["items_in_state"], parameters | chosen)
        return read_rows(Replay, rows)

    async def counts(self, session: Session, operation_id: str) -> dict[ReplayState, int]:
        """Count the items in each state."""
        rows = _numbers(await session.fetch(_SQL["counts"], {"id": operation_id}))
        return {state: rows.get(state, 0) for state in ReplayState}

    async def notes(self, session: Session, operation_id: str) -> tuple[CountedFact, ...]:
        """Return the most frequent reasons why items were refused or skipped, with their counts."""
        rows = await session.fetch(_SQL["notes"], {"id": operation_id, "most": MAX_LINES})
        return tuple(CountedFact(read_fact(note or ""), items) for note, items in rows)

    async def failures(self, session: Session, operation_id: str) -> dict[str, int]:
        """Return the most frequent fingerprints of failed items, with their counts."""
        return _numbers(await session.fetch(_SQL["failures"], {"id": operation_id, "most": MAX_LINES}))

    async def failed_as(self, operation_id: str) -> list[FailedAs]:
        """Return these fingerprints with the number of items that had the same one before their replay."""
        parameters = {"id": operation_id, "most": MAX_LINES}
        return [FailedAs._make(row) for row in await self._session.fetch(_SQL["failed_as"], parameters)]

    async def active(self, org: str, most: int) -> list[ReplayOperation]:
        """Return operations that have started and not finished, newest first."""
        rows = await self._session.fetch(_SQL["under_way"], {"org": org, "most": most})
        return read_rows(ReplayOperation, rows)

    async def reached(self, org: str, fingerprint: str) -> list[tuple[str, int]]:
        """Return operations in progress that will replay dead letters of this failure, with their number."""
        parameters = {"org": org, "fingerprint": fingerprint}
        return [(row[0], row[1]) for row in await self._session.fetch(_SQL["reached"], parameters)]

    async def progress(self, org: str, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        """Count the items of each operation by state. Succeeded items are left out, because they are many."""
        found: dict[str, dict[str, int]] = {
            operation_id: dict.fromkeys(ReplayState, 0) for operation_id in ids
        }
        for name, state, number in await self._session.fetch(
            _SQL["progress"], {"org": org, "ids": encode(list(ids))}
        ):
            found[name][state] = number
        return found

    async def span(self, session: Session, operation_id: str) -> tuple[float | None, float | None]:
        """Return when the first item started, and when the last started item finished."""
        [(first, last)] = await session.fetch(_SQL["span"], {"id": operation_id})
        return first, last


def item_id(operation_id: str, position: int) -> str:
    """Return the id of an item. Ids have equal length, so that their text order is the order of positions."""
    return f"{operation_id}:{_FIRST_ITEM + position}"


def _snapshot(row: Row) -> OperationSnapshot:
    *columns, now = row
    return OperationSnapshot(read_row(ReplayOperation, columns), now)


def _numbers(rows: Sequence[Row]) -> dict[str, int]:
    return {row[0]: row[1] for row in rows}


def _checked(operation_id: object) -> str:
    """Reject ids with unprintable characters, some of which PostgreSQL does not accept as a parameter."""
    if not isinstance(operation_id, str) or not operation_id.isprintable():
        raise _not_found(operation_id)
    return operation_id


def _not_found(operation_id: object) -> NotFoundError:
    return NotFoundError(f"found no bulk replay {operation_id!r}")
