"""The application behind a stand-alone dead-letter queue. It has one task, which calls your function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, iscoroutinefunction, signature
from random import Random
from typing import Any

from redrive.app import Redrive
from redrive.engine.dead_letter_policy import DeadLetterPolicy, StrategyOf, always_automatic
from redrive.engine.definition import Definition
from redrive.engine.handle import RunHandle
from redrive.engine.worker import Worker
from redrive.errors import InvalidValueError, TransitionError
from redrive.failures.external_tasks import DEFAULT_MAX_SIZE, PREFIX, ExternalTasks
from redrive.failures.redrive_processor import RUNNING, STOPPED, ProcessorOptions
from redrive.failures.reported_failure import ExternalTaskPolicy, redrive_config
from redrive.forking import ResetInChild, join_forks, never_finalize
from redrive.model.run import RunState
from redrive.parts import parts_of
from redrive.policy.automatic_redrive import BY_CATEGORY, Function, RedriveChoice
from redrive.policy.bounds import require_kind, require_list
from redrive.policy.presets import REDRIVE_NEVER
from redrive.policy.template import Template
from redrive.settings import Settings
from redrive.wiring import Declarations

Execute = Callable[..., Any]


@dataclass(kw_only=True)
class QueueDeclarations(Declarations):
    """The declarations of a dead-letter queue. `queue` is the queue of its runs."""

    queue: str

    @property
    def max_size(self) -> int:
        return self.settings.dlq_max_size or DEFAULT_MAX_SIZE

    @property
    def processor_options(self) -> ProcessorOptions:
        return replace(super().processor_options, queue=self.queue, max_size=self.max_size)

    def letter_policy(self, random: Random, strategy_of: StrategyOf) -> DeadLetterPolicy:
        return ExternalTaskPolicy(
            self.redactor,
            random.random,
            always_automatic,  # QueueOperations has already applied the queue's strategy
            BY_CATEGORY,
            self.settings.dlq_default_max_retries,
            self.templates,
            self.redrive_functions,
            self.settings.dlq_default_policy,
        )


class QueueApp(Redrive):
    """The application of a queue. `execute(task)` or `execute(task, context)` may be sync or async."""

    def __init__(
        self,
        url: str | None,
        name: str,
        execute: Execute | None,
        *,
        settings: Settings,
        policies: Mapping[str, Function],
        templates: Sequence[Template],
        task_options: Mapping[str, Any],
        **app_options: Any,
    ) -> None:
        self.queue = PREFIX + name
        self.can_execute = execute is not None
        self._declare = partial(QueueDeclarations, queue=self.queue)
        super().__init__(url, settings=settings, **app_options)
        require_kind("policies", policies, Mapping)
        for policy, function in policies.items():
            self._parts.declared.add_redrive_function(policy, function)
        require_list("templates", templates, "templates")
        for template in templates:
            self.template(template)
        self.classifier = task_options.get("classifier")
        names: Any = {"name": self.queue, "queue": self.queue, "retry": REDRIVE_NEVER}
        self._execute = self.task(**names, **task_options)(_adapted(execute))

    @property
    def max_size(self) -> int:
        return self._parts.settings.dlq_max_size or DEFAULT_MAX_SIZE

    def definition(self, choice: RedriveChoice, max_redrives: int | None) -> Definition:
        """Return the definition of a run that executes a failed task with this redrive policy."""
        step = self._execute.step(config=redrive_config(choice, max_redrives))
        return Definition(self.queue, (step,))

    def own_worker(self, *, redrive: bool) -> Worker:
        return self.worker(queues=(self.queue,), redrive=redrive)

    def external_tasks(self) -> ExternalTasks:
        parts = self._parts
        policy = parts.declared.letter_policy(parts.random, parts.strategies.of)
        return ExternalTasks(parts.store, parts.clock, parts.ids, parts.event_bus, policy, parts.encryption)


class Background(ResetInChild):
    """Executes the tasks of a queue in the background when they are due, or one task immediately."""

    def __init__(self, app: QueueApp, name: str) -> None:
        self._app = app
        self._name = name
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()
        join_forks(self)

    def after_fork_in_child(self) -> None:
        """Leave the background worker to the parent."""
        never_finalize(self._worker, self._running)
        self._worker, self._running, self._helpers = None, None, set()

    @property
    def state(self) -> str:
        return STOPPED if self._running is None or self._running.done() else RUNNING

    def start(self) -> None:
        _require_loop()
        if self.state == RUNNING:
            raise TransitionError(
                f"the queue {self._name!r} is already running; stop it before you start it again"
            )
        self._worker = self._app.own_worker(redrive=True)
        self._running = asyncio.create_task(self._worker.run())

    async def stop(self) -> None:
        for helper in self._helpers:
            helper.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        worker, running = self._worker, self._running
        self._worker = self._running = None
        if worker is not None and running is not None:
            worker.stop()
            await running

    async def ending(self, run: RunHandle[Any], timeout: float | None) -> RunState:
        """Wait until a replayed run finishes. After a TimeoutError, the run continues."""
        helper = self._helper(run)
        state = await run.wait(timeout)
        if helper is not None:
            await helper
        return state

    def _helper(self, run: RunHandle[Any]) -> asyncio.Task[None] | None:
        """Start a worker for this run, unless the background worker or a test executes it."""
        if self.state == RUNNING or parts_of(self._app).waiters.help is not None:
            return None
        helper = asyncio.create_task(self._help(run))
        self._helpers.add(helper)
        helper.add_done_callback(self._helpers.discard)
        return helper

    async def _help(self, run: RunHandle[Any]) -> None:
        async with self._app.own_worker(redrive=False):
            await run.wait()


def _require_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise InvalidValueError(
            "dlq.start() needs a running event loop. Call it in a coroutine, or use dlq.sync.start()"
        ) from None


def _adapted(execute: Execute | None) -> Execute:
    """Return a task function that calls `execute` with the task and, if it takes one, the context."""
    if execute is None:
        return _reject_execution
    if not callable(execute):
        raise InvalidValueError(
            f"execute must be a function that takes a task, or a task and its context; got {execute!r}"
        )
    names = ("task", "context")[: _arity(execute)]

    if iscoroutinefunction(execute):

        async def call_async(payload: dict[str, Any]) -> Any:
            return await execute(*(payload[name] for name in names))

        return call_async

    def call(payload: dict[str, Any]) -> Any:
        return execute(*(payload[name] for name in names))

    return call


def _arity(execute: Execute) -> int:
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature(execute).parameters.values()
    is_variadic = any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters)
    number = 2 if is_variadic else sum(parameter.kind in kinds for parameter in parameters)
    if not 1 <= number <= 2:
        raise InvalidValueError(
            f"execute must take a task, or a task and its context; {execute!r} takes {number} arguments"
        )
    return number


def _reject_execution(payload: object) -> None:
    raise InvalidValueError(
        "this queue can't execute tasks; create it with DeadLetterQueue(url, execute=...)"
    )
