"""The recorder: collects records and writes them in batches, one batch at a time.

It does not give up while the database is away. Before it tries again, it looks which records of the batch
were written although no answer came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from redrive.engine.store_retrier import StoreRetrier
from redrive.errors import StoreUnavailableError
from redrive.store.record import Record, Recorded
from redrive.store.store import Store

MAX_BATCH_SIZE = 500

OnRecorded = Callable[[Recorded | None], None]
"""Receives what a record has changed, or None if the lease was lost."""


class Recorder:
    def __init__(self, store: Store, retrier: StoreRetrier) -> None:
        self._store = store
        self._retrier = retrier
        self._waiting: list[tuple[Record, OnRecorded]] = []
        self._writing = 0
        self._filled = asyncio.Event()

    @property
    def pending(self) -> int:
        """How many records are not written yet."""
        return len(self._waiting) + self._writing

    def put(self, record: Record, report: OnRecorded) -> None:
        """Write the record with the next batch, then call `report`."""
        self._waiting.append((record, report))
        self._filled.set()

    async def record(self, record: Record) -> Recorded | None:
        """Write the record and wait until it is durable; None if the lease was lost."""
        done: asyncio.Future[Recorded | None] = asyncio.get_running_loop().create_future()
        self.put(record, lambda recorded: None if done.done() else done.set_result(recorded))
        return await done

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
            recorded = await self._write([record for record, _ in batch])
            self._writing -= len(batch)
            for record, report in batch:
                report(recorded.get(record.change.id))
        self._filled.clear()

    def _next_batch(self) -> list[tuple[Record, OnRecorded]]:
        """At most one record a run: a second one is not fenced against the first within one statement."""
        batch: dict[str, tuple[Record, OnRecorded]] = {}
        rest = []
        for entry in self._waiting:
            run_id = entry[0].change.id
            if len(batch) < MAX_BATCH_SIZE and run_id not in batch:
                batch[run_id] = entry
            else:
                rest.append(entry)
        self._waiting = rest
        return list(batch.values())

    async def _write(self, records: Sequence[Record]) -> dict[str, Recorded]:
        """Write a batch; after an error one by one, as it may be due to one.

        The lease of a run without an answer will expire, and the run is judged again.
        """
        batch = self._store.records.batch(records)
        try:
            return await self._retrier.run("record", batch.write, errors=StoreUnavailableError)
        except Exception as error:  # noqa: BLE001 — one bad record must not stop the others
            if len(records) == 1:
                self._retrier.report_failure("record", str(error) or repr(error), 0.0)
                return {}
        recorded: dict[str, Recorded] = {}
        for record in records:
            recorded |= await self._write([record])
        return recorded
