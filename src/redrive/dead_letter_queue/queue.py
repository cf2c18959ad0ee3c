"""The dead-letter queue on its own, for programs that have their own way of executing tasks (M2).

dlq = DeadLetterQueue("sqlite:///failed.db", execute=resend)

await dlq.enqueue("order-7", {"to": "ana"}, error=error)      a task has failed
await dlq.get("order-7")                                      what is known about it
await dlq.retry("order-7")                                    execute it again, here and now
async with dlq.processing(): ...                              execute all again, each when it is due

`resend(task)` or `resend(task, context)` executes a task again; what it raises is the next failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from redrive.config import Settings
from redrive.dead_letter_queue.app import Execute, QueueApp
from redrive.dead_letter_queue.capture import Capturing, captured
from redrive.dead_letter_queue.tasks import FailedTasks, TaskFields
from redrive.engine.alarms import statistics_of
from redrive.engine.desk import Desk
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.engine.evidence import Evidence
from redrive.engine.processor import RUNNING, STOPPED
from redrive.engine.task import checked_name, refuse_unknown
from redrive.engine.worker import Worker
from redrive.errors import InvalidValueError, NotFoundError, TransitionError
from redrive.model.alias import dead_letter_state
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import APPLICATION, checked_caller
from redrive.model.failed_task import FailedTask, RetryOutcome
from redrive.model.failure import Category
from redrive.model.run import RunState
from redrive.model.statistics import Statistics
from redrive.policy.bounds import require_whole
from redrive.policy.redriving import Function
from redrive.policy.strategy import Strategy, enters
from redrive.policy.template import Template
from redrive.policy.triage import triage
from redrive.store.redriving import Census

if TYPE_CHECKING:
    from redrive.dead_letter_queue.blocking import BlockingQueue

LARGEST_LIST = 1_000
_OPTIONS = frozenset({"timeout", "breaker", "effect", "classifier", "concurrency"})


class DeadLetterQueue:
    """Failed tasks, kept until they are done.

    Settings come from redrive.config (dlq_…); what is given here wins.

    policies   functions of your own by name, for policy="custom:<name>": redrives so far → seconds, or None
    templates  handling of common patterns (redrive.policy.template)
    options    of the function: timeout, breaker, effect, classifier, concurrency, as of a task
    """

    def __init__(
        self,
        url: str | None = None,
        execute: Execute | None = None,
        *,
        name: str = "default",
        org: str = DEFAULT_ORG,
        by: str = APPLICATION,
        settings: Settings | None = None,
        max_size: int | None = None,
        max_retries: int | None = None,
        interval: float | None = None,
        strategy: Strategy | str | None = None,
        policies: Mapping[str, Function] | None = None,
        templates: Sequence[Template] = (),
        log: bool = True,
        **options: Any,
    ) -> None:
        refuse_unknown("a dead-letter queue has no option", options, _OPTIONS)
        self.name = checked_name("the name of a dead-letter queue", name)
        self.org = checked_name("org", org)
        self._by = checked_caller(by)
        self._can_execute = execute is not None
        given: dict[str, Any] = {
            "dlq_max_size": max_size,
            "dlq_default_max_retries": max_retries,
            "dlq_interval_sec": interval,
            "dlq_strategy": strategy,
        }
        known = Settings.load() if settings is None else settings
        self.app = QueueApp(
            url,
            name,
            execute,
            settings=replace(known, **{key: value for key, value in given.items() if value is not None}),
            policies=policies or {},
            templates=templates,
            task_options=options,
            log=log,
        )
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None
        self._sync: BlockingQueue | None = None

    # Putting in and looking up

    async def enqueue(
        self, task_id: str, task: object = None, *, error: BaseException | str, **fields: Unpack[TaskFields]
    ) -> FailedTask:
        """Keep a failed task: see TaskFields. The same id again, while it is not done, is the same task with
        the newer error. A full queue refuses it with QueueFullError, and loses nothing."""
        evidence = self._tasks.evidence(error, fields)
        admission = enters(self.app.strategy, evidence.failure.category, requested=True)
        if not admission:
            raise InvalidValueError(f"the task {task_id!r} was not kept: {admission.reason}")
        return await self._keep(task_id, task, evidence, fields)

    async def offer(
        self, task_id: str, task: object = None, *, error: BaseException | str, **fields: Unpack[TaskFields]
    ) -> FailedTask | None:
        """Keep a failed task if the strategy of the queue takes it; None if not."""
        evidence = self._tasks.evidence(error, fields)
        if not enters(self.app.strategy, evidence.failure.category):
            return None
        return await self._keep(task_id, task, evidence, fields)

    async def get(self, task_id: str) -> FailedTask | None:
        """None when the queue has no such task."""
        await self.app.open()
        return await self._tasks.find(task_id)

    async def list(self, status: str | None = None, *, limit: int = 100) -> list[FailedTask]:
        """The oldest first; by status: pending, retrying, exhausted, completed, discarded, archived."""
        require_whole("limit", limit, 1, LARGEST_LIST)
        state = None if status is None else dead_letter_state(status)
        await self.app.open()
        return await self._tasks.page(state, limit)

    async def contains(self, task_id: str) -> bool:
        return await self.get(task_id) is not None

    async def size(self) -> int:
        """How many are not done with."""
        return (await self._census()).live

    async def statistics(self) -> Statistics:
        """Figures under the names of M7; those of a lifetime survive restarts."""
        census = await self._census()
        kinds: dict[str, int] = {}
        for category, number in census.categories.items():
            kind = triage(Category(category)).value
            kinds[kind] = kinds.get(kind, 0) + number
        interval, most = self.app.settings.dlq_interval_sec, self.app.max_size
        running = self.state == RUNNING or await self._is_processed()
        return statistics_of(census, most, interval, running=running)._replace(error_categories=kinds)

    # Doing something about it

    async def retry(self, task_id: str, *, reason: str = "") -> RetryOutcome:
        """Execute it here and now, whatever its policy says."""
        self._require_execute()
        item = await self._existing(task_id)
        await (await self._desk()).replays.start(item.id, reason=reason)
        run = self.app.run(item.run_id, self.org)
        async with self._at_work():
            state = await run.wait()
        succeeded = state is RunState.SUCCESS
        result = await run.result() if succeeded else None
        now = await self._existing(task_id)
        return RetryOutcome(succeeded, None if succeeded else now.last_error, result, now)

    async def archive(self, task_id: str, *, reason: str = "") -> FailedTask:
        """Put it away; nothing about it is lost."""
        item = await self._existing(task_id)
        await (await self._desk()).dead_letters.archive(item.id, reason)
        return await self._existing(task_id)

    async def clear(self, *, confirm: str) -> int:
        """Remove everything in this queue for ever, but for what is being executed; how many it were.

        `confirm` is the name of the queue, so that nobody does it by mistake.
        """
        if confirm != self.name:
            raise InvalidValueError(
                f"clear() removes all tasks of the queue {self.name!r} for ever; if that is meant, "
                f"say clear(confirm={self.name!r})"
            )
        await self.app.open()
        queue = self.app.queue
        async with self.app.database.transaction() as session:
            removed = await self._tasks.clear(session)
            detail = {"removed": removed}
            entry = NewEntry(self.org, self._by, Action.QUEUE_CLEARED, (queue,), detail)
            await self.app.store.audit.append(session, [entry])
        return removed

    # Executing in the background

    @property
    def state(self) -> str:
        """ "running" or "stopped": whether this queue executes tasks in the background."""
        return STOPPED if self._running is None or self._running.done() else RUNNING

    def start(self) -> None:
        """Execute tasks again in the background, each when it is due."""
        self._require_execute()
        if self.state == RUNNING:
            raise TransitionError(
                f"the queue {self.name!r} is already running; stop it before it is started again"
            )
        self._worker = self.app.own_worker(redrive=True)
        self._running = asyncio.create_task(self._worker.run())

    async def stop(self) -> None:
        """Finish what is being executed. A queue that is not running stays so."""
        worker, running = self._worker, self._running
        self._worker = self._running = None
        if worker is not None and running is not None:
            worker.stop()
            await running

    @asynccontextmanager
    async def processing(self) -> AsyncIterator[Self]:
        """Execute tasks in the background for the time of a block."""
        self.start()
        try:
            yield self
        finally:
            await self.stop()

    # Capturing failures

    def capturing(
        self, task_id: str, task: object = None, *, quiet: bool = False, **fields: Unpack[TaskFields]
    ) -> Capturing:
        """`async with dlq.capturing("order-7", order): ...` keeps what fails in the block, by the strategy.

        The error goes on; with `quiet` only when it could not be kept.
        """
        return Capturing(self, lambda: (task_id, task), quiet, fields)

    def capture(
        self,
        task_id: Callable[..., str] | None = None,
        *,
        quiet: bool = False,
        **fields: Unpack[TaskFields],
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """`@dlq.capture()` keeps failed calls of a function, sync or async, as {"args": …, "kwargs": …}.

        `task_id` makes an id of the arguments; unless given, the same call is the same task.
        """
        return lambda function: captured(self, function, task_id, quiet, fields)

    # Opening and closing

    async def close(self) -> None:
        await self.stop()
        await self.app.close()

    async def __aenter__(self) -> Self:
        await self.app.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def sync(self) -> BlockingQueue:
        """The same queue for programs without an event loop."""
        if self._sync is None:
            from redrive.dead_letter_queue.blocking import BlockingQueue  # it imports this module

            self._sync = BlockingQueue(self)
        return self._sync

    # Inside

    @property
    def _tasks(self) -> FailedTasks:
        return FailedTasks(self.app, self.org)

    async def _keep(self, task_id: str, task: object, evidence: Evidence, fields: TaskFields) -> FailedTask:
        report = self._tasks.report(task_id, task, evidence, fields)
        await self.app.open()
        await self._tasks.keep(report)
        return await self._existing(task_id)

    async def _existing(self, task_id: str) -> FailedTask:
        found = await self.get(task_id)
        if found is None:
            raise NotFoundError(f"there is no task {task_id!r} in the queue {self.name!r}")
        return found

    async def _desk(self) -> Desk:
        return await self.app.desk(org=self.org, by=self._by)

    async def _census(self) -> Census:
        await self.app.open()
        census = await self.app.store.redrives.census(org=self.org, queue=self.app.queue)
        return census.get(self.org, Census())

    async def _is_processed(self) -> bool:
        """By another process."""
        known = await self.app.store.redrives.processors()
        return any(each.running and each.queue in ("", self.app.queue) for each in known)

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        """Somebody executes what is ready: the background, a test, or a worker for the moment."""
        if self.state == RUNNING or self.app.waiters.help is not None:
            yield
            return
        async with self.app.own_worker(redrive=False):
            yield

    def _require_execute(self) -> None:
        if not self._can_execute:
            raise InvalidValueError(
                "this queue was given no function to execute tasks with: DeadLetterQueue(url, execute=...)"
            )
