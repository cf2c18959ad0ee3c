"""Operations on the failed tasks of a stand-alone queue: add, read, retry, archive, capture and execute."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from inspect import isawaitable
from typing import Any, Self, Unpack

from redrive.dead_letter_queue.app import Background, QueueApp
from redrive.dead_letter_queue.capture import Capturing, captured
from redrive.dead_letter_queue.refusal import not_archived, not_ended, not_retried
from redrive.dead_letter_queue.tasks import FailedTasks, TaskFields, task_fields
from redrive.duration import Seconds
from redrive.engine.evidence import Evidence
from redrive.engine.strategies import MAX_AGE_SECONDS
from redrive.errors import (
    AccessDeniedError,
    InvalidValueError,
    NotFoundError,
    ReplayRefusedError,
    TransitionError,
)
from redrive.failures.external_tasks import clear_queue
from redrive.failures.redrive_processor import RUNNING
from redrive.failures.service import Failures
from redrive.failures.statistics import statistics
from redrive.model.alias import dead_letter_state
from redrive.model.caller import Caller, checked_caller
from redrive.model.failed_task import FailedTask, FailedTaskRow, RetryOutcome
from redrive.model.run import RunState
from redrive.model.statistics import STATUS_WORDS, Statistics
from redrive.parts import parts_of
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require_seconds, require_whole
from redrive.policy.triage import Strategy, rejection
from redrive.words.fact import text_of

MAX_LIST_SIZE = 1_000

Access = Callable[[str, str], bool | Awaitable[bool]]
"""Decides whether a caller, named first, may use an operation.

The operations are enqueue, get, list, statistics, retry, archive, unlink, clear and set_strategy.
"""


class QueueOperations:
    """The methods of a queue that its blocking facade also provides."""

    def __init__(
        self,
        app: QueueApp,
        name: str,
        org: str,
        by: str,
        access: Access | None = None,
        background: Background | None = None,
    ) -> None:
        self.app = app
        self.name = name
        self.org = org
        self._by = by
        self._access = access
        self._background = background or Background(app, name)

    def on_behalf_of(self, by: str) -> QueueOperations:
        """Return the same queue for another caller, whom `access` and the audit know by this name."""
        return QueueOperations(
            self.app, self.name, self.org, checked_caller(by), self._access, self._background
        )

    # Adding and reading

    async def enqueue(
        self, task_id: str, task: object = None, *, error: BaseException | str, **fields: Unpack[TaskFields]
    ) -> FailedTask:
        """Add a failed task; see TaskFields for the options.

        If the task with this id is pending or being retried, this is another failure of it; ConflictError if
        its task or context differs. If it is exhausted, completed, discarded or archived, it stays as it is,
        and this is a new task with its own redrives. QueueFullError if the queue is full.
        """
        await self._require_access("enqueue")
        fields = task_fields(fields)
        evidence = self._tasks.evidence(error, fields)
        if reason := rejection(await self._strategy(), evidence.failure.category, requested=True):
            raise InvalidValueError(f"the queue rejected the task {task_id!r}: {text_of(reason)}")
        return await self._keep(task_id, task, evidence, fields, separately=False)

    async def offer(
        self, task_id: str, task: object = None, *, error: BaseException | str, **fields: Unpack[TaskFields]
    ) -> FailedTask | None:
        """Add a failed task if the queue's strategy accepts it; otherwise return None.

        Unlike `enqueue`, this never raises ConflictError: if another task with this id is not done, the queue
        stores the task under the id <id>~2, <id>~3, … and logs a warning.
        """
        await self._require_access("enqueue")
        fields = task_fields(fields)
        evidence = self._tasks.evidence(error, fields)
        if rejection(await self._strategy(), evidence.failure.category):
            return None
        return await self._keep(task_id, task, evidence, fields, separately=True)

    async def get(self, task_id: str) -> FailedTask | None:
        """Return the task with this id, or None."""
        await self._require_access("get")
        row = await self._find(task_id)
        return None if row is None else self._tasks.view(row)

    async def list(self, status: str | None = None, *, limit: int = 100) -> list[FailedTask]:
        """List tasks, the oldest first.

        status  pending, retrying, exhausted, completed, discarded or archived; None for all
        """
        require_whole("limit", limit, 1, MAX_LIST_SIZE)
        state = None if status is None else dead_letter_state(status, STATUS_WORDS.values())
        await self._require_access("list")
        await self.app.open()
        return [self._tasks.view(row) for row in await self._tasks.page(state, limit)]

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the ids of live tasks, the oldest first."""
        await self._require_access("list")
        await self.app.open()
        async for task_id in self._tasks.live():
            yield task_id

    async def contains(self, task_id: str) -> bool:
        await self._require_access("get")
        return await self._find(task_id) is not None

    async def size(self) -> int:
        """Count the live tasks: pending, retrying or exhausted."""
        return (await self.statistics()).queue_size

    async def statistics(self) -> Statistics:
        """Count tasks by status, category and policy. The lifetime counts survive restarts."""
        await self._require_access("statistics")
        await self.app.open()
        app, interval = self.app, parts_of(self.app).settings.dlq_interval_sec
        figures = await statistics(
            parts_of(app).store, self.org, app.queue, max_size=app.max_size, interval=interval
        )
        running = figures.is_processor_running or self.state == RUNNING
        return figures._replace(is_processor_running=running)

    # Working on tasks

    async def retry(self, task_id: str, *, reason: str = "", timeout: Seconds | None = None) -> RetryOutcome:
        """Execute a task now, regardless of its redrive policy.

        TimeoutError if it has not finished after `timeout`; it continues in the background.
        """
        self._require_execute()
        await self._require_access("retry")
        if timeout is not None:
            timeout = require_seconds("timeout", timeout, 0.0, MAX_DELAY_SECONDS)
        row = await self._existing(task_id)
        await self._start_replay(row, reason)
        run = self.app.run(row.run_id, self.org)
        try:
            succeeded = await self._background.ending(run, timeout) is RunState.SUCCESS
        except TimeoutError:
            raise TimeoutError(not_ended(task_id, timeout)) from None
        result = await run.result() if succeeded else None
        task = self._tasks.view(await self._existing(task_id))
        return RetryOutcome(
            success=succeeded, error=None if succeeded else task.last_error, result=result, item=task
        )

    async def archive(self, task_id: str, *, reason: str = "") -> FailedTask:
        """Archive a task. The queue keeps all of its data but never redrives it."""
        await self._require_access("archive")
        row = await self._existing(task_id)
        try:
            await self._failures().archive(row.letter_id, reason)
        except (TransitionError, NotFoundError):
            raise TransitionError(not_archived(await self._existing(task_id))) from None
        return self._tasks.view(await self._existing(task_id))

    async def unlink(self, task_id: str, other: str) -> bool:
        """Remove a dependency on another task (see `after`). Return False if there is no such dependency."""
        await self._require_access("unlink")
        row, letters = await self._existing(task_id), self._failures()
        awaited = [letter for letter in await self._tasks.awaited(row) if letter.task_id == other]
        return any([await letters.unlink(row.letter_id, letter.letter_id) for letter in awaited])

    async def clear(self, *, confirm: str) -> int:
        """Permanently delete all tasks of this queue that are not in progress. Return the number deleted.

        `confirm` must be the name of the queue, to prevent mistakes.
        """
        if confirm != self.name:
            raise InvalidValueError(
                f"clear() permanently deletes all tasks of the queue {self.name!r}. To confirm, call "
                f"clear(confirm={self.name!r})"
            )
        await self._require_access("clear")
        await self.app.open()
        caller = Caller(self.org, self._by)
        return await clear_queue(parts_of(self.app).store, caller, self.app.queue, self.app.max_size)

    async def set_strategy(self, strategy: Strategy | str) -> None:
        """Change which failures the queue accepts. The change is stored, and the audit records it.

        All processes with this queue follow it within a second.
        """
        after = choice("strategy", strategy, Strategy)
        await self._require_access("set_strategy")
        await self.app.open()
        await self._failures().strategies.change(after, queue=self.app.queue)

    async def strategy(self) -> Strategy:
        """Return which failures the queue accepts."""
        await self._require_access("statistics")
        await self.app.open()
        return (await self._failures().strategies.view(self.app.queue)).strategy

    # Executing in the background

    @property
    def state(self) -> str:
        """Whether this queue executes tasks in the background: "running" or "stopped"."""
        return self._background.state

    def start(self) -> None:
        """Start to execute tasks in the background when they are due."""
        self._require_execute()
        self._background.start()

    async def stop(self) -> None:
        """Stop executing tasks. Running tasks finish. Has no effect if the queue is not running."""
        await self._background.stop()

    @asynccontextmanager
    async def processing(self) -> AsyncIterator[Self]:
        """Execute tasks in the background during a block."""
        self.start()
        try:
            yield self
        finally:
            await self.stop()

    # Capturing failures

    def capturing(
        self, task_id: str, task: object = None, *, quiet: bool = False, **fields: Unpack[TaskFields]
    ) -> Capturing:
        """Capture a failure of a block: `async with dlq.capturing("order-7", order): ...`.

        The queue's strategy decides whether to store the task. The exception propagates; with `quiet`, only
        if the task was not stored.
        """
        return Capturing(self.offer, self.app, quiet, fields, lambda: (task_id, task))

    def capture(
        self,
        task_id: Callable[..., str] | None = None,
        *,
        quiet: bool = False,
        **fields: Unpack[TaskFields],
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a sync or async function so that the queue stores failed calls: `@dlq.capture()`.

        The stored task is {"args": …, "kwargs": …}. `task_id` computes its id from the arguments; without it,
        equal calls have the same id.
        """
        capturing = partial(Capturing, self.offer, self.app, quiet, fields)
        return lambda function: captured(function, task_id, capturing)

    # Other names of these methods, which other dead-letter queues use

    get_task = get
    list_tasks = list  # noqa: A003
    retry_task = retry
    archive_task = archive
    get_statistics = statistics
    clear_all = clear
    stop_retry_processor = stop

    async def start_retry_processor(self) -> None:
        self.start()

    @property
    def _tasks(self) -> FailedTasks:
        return FailedTasks(self.app, self.org)

    async def _keep(
        self, task_id: str, task: object, evidence: Evidence, fields: TaskFields, *, separately: bool
    ) -> FailedTask:
        report = self._tasks.report(task_id, task, evidence, fields)
        await self.app.open()
        stored_as = await self._tasks.keep(report, separately=separately)
        return self._tasks.view(await self._existing(stored_as))

    async def _start_replay(self, row: FailedTaskRow, reason: str) -> None:
        try:
            await self._failures().replay(row.letter_id, reason=reason)
        except (ReplayRefusedError, NotFoundError) as error:
            now = await self._existing(row.task_id)
            awaited = await self._tasks.awaited(now)
            raise ReplayRefusedError(not_retried(now, awaited, str(error))) from None

    async def _find(self, task_id: str) -> FailedTaskRow | None:
        await self.app.open()
        return await self._tasks.find(task_id)

    async def _existing(self, task_id: str) -> FailedTaskRow:
        row = await self._find(task_id)
        if row is None:
            raise NotFoundError(f"the queue {self.name!r} has no task {task_id!r}")
        return row

    async def _strategy(self) -> Strategy:
        """Return the strategy of the queue, as it was at most a second ago."""
        await self.app.open()
        strategies = parts_of(self.app).strategies
        await strategies.refresh(max_age=MAX_AGE_SECONDS)
        return strategies.of(self.org, self.app.queue)

    def _failures(self) -> Failures:
        return self.app.failures(org=self.org, by=self._by)

    async def _require_access(self, operation: str) -> None:
        """Ask the queue's `access` function. What it raises goes to the caller."""
        if self._access is None:
            return
        answer = self._access(self._by, operation)
        if not (await answer if isawaitable(answer) else answer):
            raise AccessDeniedError(
                f"{self._by!r} may not {operation} in the queue {self.name!r}; its access function refused"
            )

    def _require_execute(self) -> None:
        if not self.app.can_execute:
            raise InvalidValueError(
                "this queue can't execute tasks; create it with DeadLetterQueue(url, execute=...)"
            )
