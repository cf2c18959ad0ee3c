"""The recorder: collects the outcomes of attempts and writes them in batches, one batch at a time.

It retries for as long as the database is unavailable. Before a retry, it checks which changes of the batch
were written although no response arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

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
"""Receives the changes made by a record, or None if the lease was lost."""


class _Lane(Generic[T]):
    """Entries that the same statements write.

    run_of    returns the id of the run that an entry changes
    batch_of  returns the batch that writes the entries
    report    called with the entries of a batch and the changes made by those that were written
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
        """Take the next batch. It has each run only once: a statement cannot fence two changes of one run."""
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
    """Writes entries in four lanes.

    The first three are by far the busiest. They need no record object for each success, and one statement
    writes a batch. They take successes that change nothing besides the run:

    completions  runs with one step: update the run
    advances     a step that is not the last: update the run and insert the finished step
    last_steps   the last of several steps: update the run and insert the finished step
    records      everything else
    """

    def __init__(self, store: Store, retrier: StoreRetrier, reporter: EventReporter) -> None:
        self._store = store
        self._retrier = retrier
        self._completions = _Lane(_run_of_success, self._completion_batch, reporter.succeeded)
        self._advances = _Lane(_run_of_success, self._step_batch, reporter.succeeded)
        self._last_steps = _Lane(_run_of_success, self._step_batch, reporter.succeeded)
        self._records = _Lane(_run_of_record, self._record_batch, _report_records)
        self._lanes: tuple[_Lane[Any], ...] = (
            self._completions,
            self._advances,
            self._last_steps,
            self._records,
        )
        self._writing = self._written = 0
        self._progressed = asyncio.Event()
        self._filled = asyncio.Event()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Cached: up to Python 3.11, getting the running loop is a system call."""
        return asyncio.get_running_loop()

    @property
    def pending(self) -> int:
        """The number of entries not yet written."""
        return sum(len(lane.entries) for lane in self._lanes) + self._writing

    def put(self, record: Record, report: OnRecorded) -> None:
        """Add the record to the next batch. `report` is called once it is written."""
        self._records.entries.append((record, report))
        self._filled.set()

    async def record(self, record: Record) -> Recorded | None:
        """Write the record and wait until it is durable; None if the lease was lost."""
        done: asyncio.Future[Recorded | None] = self._loop.create_future()
        self.put(record, lambda recorded: None if done.done() else done.set_result(recorded))
        return await done

    def complete(self, work: Work, result: str, seconds: float) -> None:
        """Write and report a success that finishes its run and changes nothing else."""
        lane = self._completions if len(work.definition.steps) == 1 else self._last_steps
        lane.entries.append((work, completed(work.claim, result), seconds, None))
        self._filled.set()

    def advance(self, work: Work, change: Advanced, seconds: float) -> asyncio.Future[Recorded | None]:
        """Write and report the success of a step that changes nothing besides its run. Await the outcome."""
        done: asyncio.Future[Recorded | None] = self._loop.create_future()
        self._advances.entries.append((work, change, seconds, done))
        self._filled.set()
        return done

    async def wait_until_written(self) -> None:
        """Wait until everything that is pending now is written. `run` must be running."""
        written = self._written + self.pending
        while self._written < written:
            self._progressed.clear()
            await self._progressed.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._filled.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write all pending entries."""
        while self.pending > self._writing:
            for lane in self._lanes:
                await self._flush(lane)
        self._filled.clear()

    async def _flush(self, lane: _Lane[T]) -> None:
        """Write a batch. If that fails for a run, its lease expires and the attempt is handled again."""
        entries = lane.take()
        if not entries:
            return
        self._writing += len(entries)
        try:
            recorded = await self._write_entries(lane, entries)
        finally:
            self._writing -= len(entries)
            self._written += len(entries)
            self._progressed.set()
        lane.report(entries, recorded)

    async def _write_entries(self, lane: _Lane[T], entries: Sequence[T]) -> dict[str, Recorded]:
        """Write a batch at once; after an error, write each entry separately, as one may be invalid."""
        batch = lane.batch_of(entries)
        try:
            return await self._retrier.run("record", batch.write, errors=StoreUnavailableError)
        except Exception as error:  # noqa: BLE001 — one invalid entry must not block the others
            if len(entries) == 1:
                self._retrier.report_failure("record", str(error) or repr(error), 0.0)
                return {}
        recorded: dict[str, Recorded] = {}
        for entry in entries:
            recorded |= await self._write_entries(lane, [entry])
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
