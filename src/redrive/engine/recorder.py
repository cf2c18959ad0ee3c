"""The recorder: collects records and writes them in batches, one batch at a time.

It does not give up while the database is away. Before it tries again, it looks which records of the batch
were written although no answer came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from redrive.engine.event_reporter import Completion, EventReporter
from redrive.engine.recording import plain_completion
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.work import Work
from redrive.errors import StoreUnavailableError
from redrive.store.record import Record, Recorded
from redrive.store.store import Store

MAX_BATCH_SIZE = 500

T = TypeVar("T")
OnRecorded = Callable[[Recorded | None], None]
"""Receives what a record has changed, or None if the lease was lost."""


class Recorder:
    """Most records complete a run of one step and change nothing else: they have a lane of their own."""

    def __init__(self, store: Store, retrier: StoreRetrier, reporter: EventReporter) -> None:
        self._store = store
        self._retrier = retrier
        self._reporter = reporter
        self._waiting: list[tuple[Record, OnRecorded]] = []
        self._completions: list[Completion] = []
        self._writing = 0
        self._filled = asyncio.Event()

    @property
    def pending(self) -> int:
        """How many records are not written yet."""
        return len(self._waiting) + len(self._completions) + self._writing

    def put(self, record: Record, report: OnRecorded) -> None:
        """Write the record with the next batch, then call `report`."""
        self._waiting.append((record, report))
        self._filled.set()

    def complete(self, work: Work, result: str, seconds: float) -> None:
        """Write the success of a work that has nothing beside, then report it."""
        self._completions.append((work, result, seconds))
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
        while self._waiting or self._completions:
            await self._flush_completions()
            await self._flush_records()
        self._filled.clear()

    async def _flush_completions(self) -> None:
        batch, self._completions = _next_batch(self._completions, _run_of_completion)
        if batch:
            recorded = await self._write([plain_completion(work, result) for work, result, _ in batch])
            self._reporter.runs_succeeded(batch, recorded)

    async def _flush_records(self) -> None:
        batch, self._waiting = _next_batch(self._waiting, _run_of_record)
        if batch:
            recorded = await self._write([record for record, _ in batch])
            for record, report in batch:
                report(recorded.get(record.change.id))

    async def _write(self, records: Sequence[Record]) -> dict[str, Recorded]:
        """Write a batch. The lease of a run without an answer will expire, and the run is judged again."""
        self._writing += len(records)
        try:
            return await self._written(records)
        finally:
            self._writing -= len(records)

    async def _written(self, records: Sequence[Record]) -> dict[str, Recorded]:
        """Write a batch at once; after an error one by one, as it may be due to one."""
        batch = self._store.records.batch(records)
        try:
            return await self._retrier.run("record", batch.write, errors=StoreUnavailableError)
        except Exception as error:  # noqa: BLE001 — one bad record must not stop the others
            if len(records) == 1:
                self._retrier.report_failure("record", str(error) or repr(error), 0.0)
                return {}
        recorded: dict[str, Recorded] = {}
        for record in records:
            recorded |= await self._written([record])
        return recorded


def _run_of_record(entry: tuple[Record, OnRecorded]) -> str:
    return entry[0].change.id


def _run_of_completion(completion: Completion) -> str:
    return completion[0].claim.id


def _next_batch(entries: Sequence[T], run_of: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """The next batch and the rest. No run is in a batch twice: one statement does not fence two records."""
    batch: dict[str, T] = {}
    rest = []
    for entry in entries:
        run_id = run_of(entry)
        if len(batch) < MAX_BATCH_SIZE and run_id not in batch:
            batch[run_id] = entry
        else:
            rest.append(entry)
    return list(batch.values()), rest
