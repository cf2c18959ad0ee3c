"""The recorder: gathers what came of claims and writes it in batches, each as soon as the one before is done.

A record is not given up while the database is away: it is tried again, after looking which of them had been
written although no answer came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from redrive.engine.store_retrier import StoreRetrier
from redrive.errors import StoreError, StoreUnavailableError
from redrive.model.failure_group import GroupChange
from redrive.store.record import Record
from redrive.store.records import Kept, Records
from redrive.store.replays import Resolved, Settled
from redrive.store.store import Store

MAX_BATCH_SIZE = 500

T = TypeVar("T")

Recorded = Callable[[str | None], None]


class Recorder:
    """`noticed` is called with what records have brought about beside their runs."""

    def __init__(
        self,
        store: Store,
        retrier: StoreRetrier,
        noticed: Callable[[Settled | Resolved | GroupChange], None] = lambda what: None,
    ) -> None:
        self._store = store
        self._retrier = retrier
        self._notice = noticed
        self._letters: dict[str, str] = {}
        self._waiting: list[tuple[Record, Recorded]] = []
        self._writing = 0
        self._filled = asyncio.Event()

    @property
    def pending(self) -> int:
        """How many records are not written yet."""
        return len(self._waiting) + self._writing

    def put(self, record: Record, recorded: Recorded) -> None:
        """Write it soon, then call `recorded` with where the run lies now, or None if the lease was lost."""
        self._waiting.append((record, recorded))
        self._filled.set()

    async def record(self, record: Record) -> str | None:
        """Write it; when it is durable, where the run lies now, or None if the lease was lost."""
        done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.put(record, lambda place: None if done.done() else done.set_result(place))
        return await done

    async def applied(self, record: Record) -> tuple[dict[str, str], set[str]]:
        """Was this record written, by somebody's own transaction? See Records.applied."""
        return await self.patiently("record", lambda: self._store.records.applied([record]))

    def report_failure(self, doing: str, error: str) -> None:
        self._retrier.report_failure(doing, error, 0.0)

    async def patiently(self, doing: str, action: Callable[[], Awaitable[T]]) -> T:
        return await self._retrier.run(doing, action)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._filled.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write everything that is there."""
        while self._waiting:
            batch = self._next_batch()
            self._writing += len(batch)
            places = await self._written([record for record, _ in batch])
            self._writing -= len(batch)
            self._take_noticed()
            for record, recorded in batch:
                recorded(places.get(record.change.id))
            self._letters.clear()
        self._filled.clear()

    def letter_of(self, run_id: str, letter_id: str) -> str:
        """The dead letter that has just been written: a new one of this id, or the one that was there."""
        return self._letters.get(run_id, letter_id)

    def _take_noticed(self) -> None:
        records = self._store.records
        noticed, records.noticed = records.noticed, []
        for each in noticed:
            if isinstance(each, Kept):
                self._letters[each.run_id] = each.letter_id
            else:
                self._notice(each)

    async def _written(self, records: Sequence[Record]) -> dict[str, str]:
        try:
            return await self._write(records)
        except Exception as error:  # noqa: BLE001 — a mistake of ours must not stop all other records
            self._retrier.report_failure("record", repr(error), 0.0)
            return {}

    def _next_batch(self) -> list[tuple[Record, Recorded]]:
        """At most one record a run: a second one is not fenced against the first within one statement."""
        batch: dict[str, tuple[Record, Recorded]] = {}
        rest = []
        for entry in self._waiting:
            run_id = entry[0].change.id
            if len(batch) < MAX_BATCH_SIZE and run_id not in batch:
                batch[run_id] = entry
            else:
                rest.append(entry)
        self._waiting = rest
        return list(batch.values())

    async def _write(self, records: Sequence[Record]) -> dict[str, str]:
        batch = _Batch(records)
        try:
            action = partial(batch.write, self._store.records)
            return await self._retrier.run("record", action, errors=StoreUnavailableError)
        except StoreError as error:
            return await self._write_one_by_one(records, error)

    async def _write_one_by_one(self, records: Sequence[Record], error: StoreError) -> dict[str, str]:
        """Something in the batch is not accepted; it must not take the others with it."""
        if len(records) == 1:
            # Its lease will expire, and it is judged again.
            self._retrier.report_failure("record", str(error), 0.0)
            return {}
        places: dict[str, str] = {}
        for record in records:
            places |= await self._write([record])
        return places


class _Batch:
    """Records that are written once, however often it is tried."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._rest = list(records)
        self._places: dict[str, str] = {}
        self._tried = False

    async def write(self, records: Records) -> dict[str, str]:
        if self._tried:  # the commit may have succeeded nevertheless: look first, then write what is missing
            written, still_open = await records.applied(self._rest)
            self._places |= written
            self._rest = [record for record in self._rest if record.change.id in still_open]
        self._tried = True
        if self._rest:
            self._places |= await records.record(self._rest)
        return self._places
