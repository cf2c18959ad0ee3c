"""The recorder: collects what is to be recorded and writes it in batches, one batch at a time.

It does not give up while the database is away. Before it tries again, it looks which changes of the batch
were written although no answer came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from redrive.engine.event_reporter import EventReporter, Success
from redrive.engine.recording import completed, finished_step
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.work import Work
from redrive.errors import StoreUnavailableError
from redrive.store.record import Advanced, Record, Recorded
from redrive.store.records import RecordBatch
from redrive.store.store import Store

MAX_BATCH_SIZE = 500

T = TypeVar("T")
OnRecorded = Callable[[Recorded | None], None]
"""Receives what a record has changed, or None if the lease was lost."""


class _Lane(Generic[T]):
    """Entries that are written by the same statements.

    run_of    the id of the run that an entry changes
    batch_of  the batch that writes entries
    report    called with the entries of a batch, and with what those that were written have changed
    """

    def __init__(
        self,
        run_of: Callable[[T], str],
        batch_of: Callable[[Sequence[T]], RecordBatch],
        report: Callable[[Sequence[T], Mapping[str, Recorded]], None],
    ) -> None:
        self.run_of = run_of
        self.batch_of = batch_of
        self.report = report
        self.entries: list[T] = []

    def take(self) -> list[T]:
        """Take the next batch. No run is in it twice: one statement does not fence two changes of a run."""
        batch: dict[str, T] = {}
        rest = []
        for entry in self.entries:
            run_id = self.run_of(entry)
            if len(batch) < MAX_BATCH_SIZE and run_id not in batch:
                batch[run_id] = entry
            else:
                rest.append(entry)
        self.entries = rest
        return list(batch.values())


class Recorder:
    """Has three lanes. The first two are by far the busiest: they make no record of each success.

    completions  successes of runs of one step, which have nothing beside: only the run changes
    steps        the same of runs of several steps: the run changes, and the finished step is inserted
    records      everything else
    """

    def __init__(self, store: Store, retrier: StoreRetrier, reporter: EventReporter) -> None:
        self._store = store
        self._retrier = retrier
        self._completions = _Lane(_run_of_success, self._completion_batch, reporter.succeeded)
        self._steps = _Lane(_run_of_success, self._step_batch, reporter.succeeded)
        self._records = _Lane(_run_of_record, self._record_batch, _report_records)
        self._writing = 0
        self._filled = asyncio.Event()

    @property
    def pending(self) -> int:
        """How many entries are not written yet."""
        waiting = len(self._completions.entries) + len(self._steps.entries) + len(self._records.entries)
        return waiting + self._writing

    def put(self, record: Record, report: OnRecorded) -> None:
        """Write the record with the next batch, then call `report`."""
        self._records.entries.append((record, report))
        self._filled.set()

    async def record(self, record: Record) -> Recorded | None:
        """Write the record and wait until it is durable; None if the lease was lost."""
        done: asyncio.Future[Recorded | None] = asyncio.get_running_loop().create_future()
        self.put(record, lambda recorded: None if done.done() else done.set_result(recorded))
        return await done

    def complete(self, work: Work, result: str, seconds: float) -> None:
        """Write the success of a work that has nothing beside and ends its run, then report it."""
        lane = self._completions if len(work.definition.steps) == 1 else self._steps
        lane.entries.append((work, completed(work.claim, result), seconds, None))
        self._filled.set()

    def advance(self, work: Work, change: Advanced, seconds: float) -> asyncio.Future[Recorded | None]:
        """Write the success of a work that has nothing beside and report it; await it to know the outcome."""
        done: asyncio.Future[Recorded | None] = asyncio.get_running_loop().create_future()
        self._steps.entries.append((work, change, seconds, done))
        self._filled.set()
        return done

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._filled.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write everything that is there."""
        while self.pending > self._writing:
            await self._flush(self._completions)
            await self._flush(self._steps)
            await self._flush(self._records)
        self._filled.clear()

    async def _flush(self, lane: _Lane[T]) -> None:
        """Write a batch. The lease of a run without an answer will expire, and the run is judged again."""
        entries = lane.take()
        if not entries:
            return
        self._writing += len(entries)
        try:
            recorded = await self._written(lane, entries)
        finally:
            self._writing -= len(entries)
        lane.report(entries, recorded)

    async def _written(self, lane: _Lane[T], entries: Sequence[T]) -> dict[str, Recorded]:
        """Write a batch at once; after an error one by one, as it may be due to one."""
        batch = lane.batch_of(entries)
        try:
            return await self._retrier.run("record", batch.write, errors=StoreUnavailableError)
        except Exception as error:  # noqa: BLE001 — one bad entry must not stop the others
            if len(entries) == 1:
                self._retrier.report_failure("record", str(error) or repr(error), 0.0)
                return {}
        recorded: dict[str, Recorded] = {}
        for entry in entries:
            recorded |= await self._written(lane, [entry])
        return recorded

    def _completion_batch(self, entries: Sequence[Success]) -> RecordBatch:
        return self._store.records.completions([change for _, change, _, _ in entries])

    def _step_batch(self, entries: Sequence[Success]) -> RecordBatch:
        steps = [finished_step(work, change.output) for work, change, _, _ in entries]
        return self._store.records.finished_steps([change for _, change, _, _ in entries], steps)

    def _record_batch(self, entries: Sequence[tuple[Record, OnRecorded]]) -> RecordBatch:
        return self._store.records.batch([record for record, _ in entries])


def _run_of_record(entry: tuple[Record, OnRecorded]) -> str:
    return entry[0].change.id


def _report_records(entries: Sequence[tuple[Record, OnRecorded]], recorded: Mapping[str, Recorded]) -> None:
    for record, report in entries:
        report(recorded.get(record.change.id))


def _run_of_success(success: Success) -> str:
    return success[1].id
