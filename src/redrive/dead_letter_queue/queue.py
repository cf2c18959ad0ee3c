"""The stand-alone dead-letter queue, for programs that use another job system.

dlq = DeadLetterQueue("sqlite:///failed.db", execute=resend)

await dlq.enqueue("order-7", {"to": "ana"}, error=error)      add a failed task
await dlq.get("order-7")                                      read it
await dlq.retry("order-7")                                    execute it again now
async with dlq.processing(): ...                              execute all tasks when they are due

`resend(task)` or `resend(task, context)` executes a task again. If it raises, the task has failed again.

Internally, a failed task is a run with a dead letter. `FailedTask` and `Statistics` translate its states to
the status words of the queue: pending, retrying, completed, …
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from types import EllipsisType, TracebackType
from typing import Any, Self

from redrive.dead_letter_queue.app import Execute, QueueApp
from redrive.dead_letter_queue.blocking import BlockingQueue
from redrive.dead_letter_queue.operations import Access, QueueOperations
from redrive.duration import Seconds, to_seconds
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.engine.task import checked_name, reject_unknown
from redrive.model.caller import APPLICATION, checked_caller
from redrive.policy.automatic_redrive import Function
from redrive.policy.codec import DEFAULT_LIMITS, JsonLimits
from redrive.policy.monitor import DEFAULT_THRESHOLDS, Thresholds
from redrive.policy.redact import DEFAULT_REDACTOR, Redactor
from redrive.policy.template import Template
from redrive.policy.triage import Strategy
from redrive.settings import Settings

_OPTIONS = frozenset({"timeout", "breaker", "effect", "classifier", "concurrency"})


class DeadLetterQueue(QueueOperations):
    """A queue of failed tasks. It keeps each task until the task succeeds or an operator removes it.

    Arguments take precedence over the dlq_… settings (redrive.settings).

    execute         your function, which executes a task again
    access          your function that decides whether a caller may use an operation: access(by, "retry")
                    returns a bool, also async. Without it, every caller may do everything. `on_behalf_of`
                    returns the queue for one caller
    max_size        maximum number of live tasks
    max_retries     maximum automatic redrives of a task that doesn't set its own maximum
    interval        pause between two searches for due tasks, in seconds or as a timedelta
    strategy        which failures the queue accepts
    default_policy  replaces the exponential policy for tasks whose policy depends on the category
    archive_days    archive exhausted tasks after this many days; None: never
    policies        your functions for policy="custom:<name>", by name. Each takes the number of redrives so
                    far and returns the delay as seconds or a timedelta, or None for no more redrives
    templates       rules for known error patterns (redrive.policy.template)
    thresholds      limits that raise an alert when exceeded (redrive.policy.monitor)
    redactor        finds and removes secrets
    limits          maximum size of a task
    options         options of the task: timeout, breaker, effect, classifier, concurrency
    """

    def __init__(
        self,
        url: str | None = None,
        execute: Execute | None = None,
        *,
        name: str = "default",
        org: str = DEFAULT_ORG,
        by: str = APPLICATION,
        access: Access | None = None,
        settings: Settings | None = None,
        max_size: int | None = None,
        max_retries: int | None = None,
        interval: Seconds | None = None,
        strategy: Strategy | str | None = None,
        default_policy: str | None = None,
        archive_days: float | EllipsisType | None = ...,
        policies: Mapping[str, Function] | None = None,
        templates: Sequence[Template] = (),
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        redactor: Redactor = DEFAULT_REDACTOR,
        limits: JsonLimits = DEFAULT_LIMITS,
        log: bool = True,
        **options: Any,
    ) -> None:
        reject_unknown("a dead-letter queue has no option", options, _OPTIONS | _keywords())
        name = checked_name("the name of a dead-letter queue", name)
        org, by = checked_name("org", org), checked_caller(by)
        given = {
            "dlq_max_size": max_size,
            "dlq_default_max_retries": max_retries,
            "dlq_interval_sec": None if interval is None else to_seconds(interval),
            "dlq_strategy": strategy,
            "dlq_default_policy": default_policy,
        }
        app = QueueApp(
            url,
            name,
            execute,
            settings=_settings(settings, given, archive_days),
            policies={} if policies is None else policies,
            templates=templates,
            task_options=options,
            thresholds=thresholds,
            redactor=redactor,
            limits=limits,
            log=log,
        )
        super().__init__(app, name, org, by, access)
        self._sync = BlockingQueue(self)

    def __repr__(self) -> str:
        whose = "" if self.org == DEFAULT_ORG else f" of {self.org!r}"
        return f"<DeadLetterQueue {self.name!r}{whose}, {self.state}>"

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
        """The same queue, for programs without an event loop."""
        return self._sync


def _settings(
    known: Settings | None, given: Mapping[str, Any], archive_days: float | EllipsisType | None
) -> Settings:
    """Return the settings with the arguments applied. None means "not given", except for `archive_days`."""
    changes = {key: value for key, value in given.items() if value is not None}
    if archive_days is not ...:
        changes["dlq_archive_days"] = archive_days
    return replace(Settings.checked(known), **changes)


def _keywords() -> frozenset[str]:
    return frozenset(signature(DeadLetterQueue).parameters) - {"options"}
