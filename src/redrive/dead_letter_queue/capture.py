"""Capture failures of a block, or of every call of a function, according to the strategy of the queue."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any

from redrive.dead_letter_queue.app import QueueApp
from redrive.dead_letter_queue.tasks import TaskFields
from redrive.engine.payload import to_json
from redrive.model.failed_task import FailedTask
from redrive.policy.idempotency_key import request_hash

Offer = Callable[..., Coroutine[Any, Any, FailedTask | None]]
"""QueueOperations.offer: keeps the task, or returns None."""

Describe = Callable[[], tuple[str, object]]
"""Returns the id and the task; called only after a failure."""


class Capturing:
    """`async with`, or `with` in programs without an event loop. The exception propagates, unless `quiet`."""

    def __init__(
        self, offer: Offer, app: QueueApp, quiet: bool, fields: TaskFields, describe: Describe
    ) -> None:
        self._offer = offer
        self._app = app
        self._quiet = quiet
        self._fields = fields
        self._describe = describe

    async def __aenter__(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        try:
            return await self._keep(error)
        except Exception as own:  # noqa: BLE001 — the caller must see the first exception
            return _add_note(error, own)

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        try:
            return self._app.sync.wait_for(self._keep(error))
        except Exception as own:  # noqa: BLE001
            return _add_note(error, own)

    def _keep(self, error: Exception) -> Coroutine[Any, Any, bool]:
        """Describe the task now, on the calling thread; the queue may take it on another one."""
        return self._offer_task(*self._describe(), error)

    async def _offer_task(self, task_id: str, task: object, error: Exception) -> bool:
        """Return True, which swallows the exception, only if it is quiet and the task was kept."""
        kept = await self._offer(task_id, task, error=error, **self._fields)
        return kept is not None and self._quiet


def captured(
    function: Callable[..., Any],
    task_id: Callable[..., str] | None,
    capturing: Callable[[Describe], Capturing],
) -> Callable[..., Any]:
    """Wrap the function, so that the queue keeps its failures."""

    def describe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Describe:
        return partial(_describe, function, task_id, args, kwargs)

    if iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            async with capturing(describe(args, kwargs)):
                return await function(*args, **kwargs)

        return call_async

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with capturing(describe(args, kwargs)):
            return function(*args, **kwargs)

    return call


def _describe(
    function: Callable[..., Any],
    task_id: Callable[..., str] | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[str, object]:
    """Return id and task of a call. Without `task_id`, the same call is the same task."""
    task = to_json({"args": list(args), "kwargs": kwargs})
    if task_id is not None:
        return task_id(*args, **kwargs), task
    return f"{function.__name__}:{request_hash(task)[:16]}", task


def _add_note(error: Exception, own: Exception) -> bool:
    error.add_note(f"it was not kept in the dead-letter queue: {own}")
    return False
