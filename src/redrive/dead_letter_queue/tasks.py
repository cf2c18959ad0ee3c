"""Check the failed tasks of a stand-alone queue, store them as failed runs, and read them back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from types import MappingProxyType
from typing import Any, TypedDict, cast

from redrive.dead_letter_queue.app import QueueApp
from redrive.dead_letter_queue.refusal import Awaited
from redrive.engine.enqueue import MAX_PRIORITY
from redrive.engine.evidence import Evidence
from redrive.engine.payload import json_and_text
from redrive.engine.task import reject_unknown
from redrive.errors import InvalidValueError
from redrive.failures.external_tasks import TaskReport
from redrive.failures.reported_failure import category_of, evidence_of_report
from redrive.model.dead_letter import DeadLetterLine, DeadLetterState
from redrive.model.failed_task import MAX_TASK_ID_LENGTH, FailedTask, FailedTaskRow, NewFailedTask
from redrive.model.failure import Category
from redrive.model.query import Order
from redrive.model.spelling import own_names
from redrive.model.statistics import STATUS_WORDS
from redrive.parts import parts_of
from redrive.policy.automatic_redrive import (
    BY_CATEGORY,
    CUSTOM_PREFIX,
    MAX_REDRIVES,
    RedriveChoice,
    check_choice,
)
from redrive.policy.bounds import require_kind, require_list, require_whole
from redrive.policy.codec import decode
from redrive.policy.idempotency_key import request_hash
from redrive.policy.query import parse
from redrive.policy.redact.marker import MARKER
from redrive.policy.triage import triage

PAGE_SIZE = 500
REPORTER = "reported"
"""Stored as the worker, since another system made the attempt."""
SEPARATOR = "\x1f"
"""Separates the queue from the task id in the key of a run. No queue, task id or user's key contains it."""


class OtherTaskFields(TypedDict, total=False):
    """Other names of options, which other dead-letter queues use."""

    repos: object
    retry_policy: RedriveChoice | None
    error_category: str | None


FIELD_ALIASES: Mapping[str, str] = MappingProxyType(
    {"repos": "context", "retry_policy": "policy", "error_category": "category"}
)


class TaskFields(OtherTaskFields, total=False):
    """Options of a failed task.

    context      more data for the function, such as a list of repositories
    policy       never, linear, exponential, immediate, custom:<name> or a RetryPolicy; default: by category
    max_retries  maximum number of automatic redrives
    category     transient, network, resource, permission, validation or permanent; default: by the error
    metadata     data that describes the task, such as its team
    priority     from -100 to 100; higher values run first
    after        ids of tasks that must succeed before this task is redriven

    `repos`, `retry_policy` and `error_category` are other names of context, policy and category.
    """

    context: object
    policy: RedriveChoice | None
    max_retries: int | None
    category: str | None
    metadata: Mapping[str, Any] | None
    priority: int
    after: Collection[str]


def task_fields(given: TaskFields) -> TaskFields:
    """Replace other names of options by ours."""
    return cast(
        "TaskFields", own_names(given, TaskFields.__optional_keys__ - FIELD_ALIASES.keys(), FIELD_ALIASES)
    )


class FailedTasks:
    """The failed tasks of a queue in one organization."""

    def __init__(self, app: QueueApp, org: str) -> None:
        self._app = app
        self._org = org
        self._external = app.external_tasks()
        self._letters = parts_of(app).store.dead_letters
        self._encryption = parts_of(app).encryption

    def evidence(self, error: BaseException | str, fields: TaskFields) -> Evidence:
        reject_unknown("a failed task has no field", fields, TaskFields.__optional_keys__)
        require_kind("error", error, BaseException, str)
        category = fields.get("category")
        return evidence_of_report(
            error,
            None if category is None else category_of(category),
            classifier=self._app.classifier,
            redactor=parts_of(self._app).redactor,
            step=self._app.queue,
            now=parts_of(self._app).clock.now(),
        )

    def report(self, task_id: str, task: object, evidence: Evidence, fields: TaskFields) -> TaskReport:
        """Check a task and its options, and return what the store needs."""
        app = self._app
        definition = app.definition(self._policy(fields), _max_redrives(fields))
        payload, text = json_and_text(
            {"task": task, "context": fields.get("context")}, limits=parts_of(app).limits
        )
        new = NewFailedTask(
            id=parts_of(app).ids.new(),
            org=self._org,
            workflow=app.queue,
            definition=definition.digest,
            queue=app.queue,
            priority=_priority(fields),
            input=self._encryption.encrypt(text),
            key=self._key(task_id),
            request_hash=request_hash([app.queue, payload], limits=parts_of(app).limits),
            correlation_id=task_id,
            tags=None,
            metadata=self._metadata(fields),
            token=parts_of(app).ids.token(),
            worker=REPORTER,
            code_version=parts_of(app).settings.code_version or "unversioned",
        )
        after = {other: self._key(other) for other in _after(fields)}
        return TaskReport(new, definition, evidence, after)

    async def keep(self, report: TaskReport, *, separately: bool) -> str:
        return await self._external.keep(report, self._app.max_size, separately=separately)

    async def find(self, task_id: str) -> FailedTaskRow | None:
        return await self._external.find(self._org, self._key(task_id))

    async def page(self, state: DeadLetterState | None, limit: int) -> list[FailedTaskRow]:
        return await self._external.page(self._org, self._app.queue, state, limit)

    async def live(self) -> AsyncIterator[str]:
        """Yield the ids of live tasks, the oldest first."""
        query, cursor, more = parse(f'is:live queue:"{self._app.queue}"'), None, True
        while more:
            page = await self._letters.page(query, self._org, PAGE_SIZE, cursor, Order.OLDEST)
            for line in page.lines:
                yield await self._task_id(line)
            cursor, more = page.next_cursor, page.next_cursor is not None

    async def awaited(self, row: FailedTaskRow) -> list[Awaited]:
        """List the dead letters that must be resolved before this task is redriven."""
        lines = await self._letters.dependencies(row.letter_id, self._org)
        return [
            Awaited(
                line.id,
                await self._task_id(line) if line.queue == self._app.queue else None,
                DeadLetterState(line.state),
            )
            for line in lines
        ]

    def _key(self, task_id: str) -> str:
        return f"{self._app.queue}{SEPARATOR}{_checked_id(task_id)}"

    def _policy(self, fields: TaskFields) -> RedriveChoice:
        choice, functions = (
            check_choice(fields.get("policy") or BY_CATEGORY),
            parts_of(self._app).declared.redrive_functions,
        )
        if isinstance(choice, str) and choice.startswith(CUSTOM_PREFIX):
            name = choice.removeprefix(CUSTOM_PREFIX)
            if name not in functions:
                known = ", ".join(CUSTOM_PREFIX + function for function in sorted(functions)) or "none"
                raise InvalidValueError(
                    f"this queue has no policy {choice!r}. Known custom policies: {known}. To add it, create "
                    f"the queue with DeadLetterQueue(..., policies={{{name!r}: function}})"
                )
        return choice

    async def _task_id(self, line: DeadLetterLine) -> str:
        """Return the original task id. The run has it if the dead letter shows it redacted."""
        if not MARKER.search(line.correlation_id):
            return line.correlation_id
        return (await parts_of(self._app).store.runs.get(line.run_id, self._org)).correlation_id

    def _metadata(self, fields: TaskFields) -> str | None:
        metadata = fields.get("metadata")
        if metadata is None:
            return None
        require_kind("metadata", metadata, Mapping)
        return self._encryption.encrypt(json_and_text(dict(metadata), limits=parts_of(self._app).limits)[1])

    def view(self, row: FailedTaskRow) -> FailedTask:
        """Return the decrypted task, with the status words of the queue."""
        state, payload = DeadLetterState(row.state), self._decrypt(row.input)
        return FailedTask(
            task_id=row.task_id,
            task=payload["task"],
            context=payload["context"],
            error=row.first_message or row.message,
            error_category=triage(Category(row.category)).value,
            retry_policy=row.redrive,
            retry_count=row.redrives,
            max_retries=row.max_redrives,
            next_retry_at=row.next_redrive_at if state is DeadLetterState.OPEN and not row.waits else None,
            status=STATUS_WORDS[state],
            failed_at=row.created_at,
            total_attempts=row.attempts,
            last_error=row.message,
            metadata={} if row.metadata is None else self._decrypt(row.metadata),
            priority=row.priority,
            updated_at=row.updated_at,
            id=row.letter_id,
            run_id=row.run_id,
        )

    def _decrypt(self, text: str) -> Any:
        return decode(self._encryption.decrypt(text))


def _max_redrives(fields: TaskFields) -> int | None:
    max_retries = fields.get("max_retries")
    if max_retries is not None:
        require_whole("max_retries", max_retries, 0, MAX_REDRIVES)
    return max_retries


def _after(fields: TaskFields) -> Collection[str]:
    after = fields.get("after", ())
    require_list("after", after, "task ids")
    return list(after)


def _priority(fields: TaskFields) -> int:
    priority = fields.get("priority", 0)
    require_whole("priority", priority, -MAX_PRIORITY, MAX_PRIORITY)
    return priority


def _checked_id(task_id: object) -> str:
    if (
        not isinstance(task_id, str)
        or not task_id
        or len(task_id) > MAX_TASK_ID_LENGTH
        or not task_id.isprintable()
    ):
        raise InvalidValueError(
            f"a task id must be a string of 1 to {MAX_TASK_ID_LENGTH} printable characters, got {task_id!r}"
        )
    return task_id
