"""Capture the failures of a block, or of each call of a function, if the queue's strategy accepts them."""

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
"""QueueOperations.offer: stores the task, or returns None."""

Describe = Callable[[], tuple[str, object]]
"""Returns the id and the task. Called only after a failure."""


class Capturing:
    """Captures a failure of an `async with` block, or of a `with` block without an event loop.

    With `quiet`, swallows the exception if the queue stored the task. Otherwise the exception propagates.
    """

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
            return await self._capture(error)
        except Exception as capture_error:  # noqa: BLE001 — the caller must see the original exception
            return _add_note(error, capture_error)

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        try:
            return self._app.sync.wait_for(self._capture(error))
        except Exception as capture_error:  # noqa: BLE001
            return _add_note(error, capture_error)

    def _capture(self, error: Exception) -> Coroutine[Any, Any, bool]:
        """Describe the task on the calling thread. The coroutine may run on another thread."""
        return self._offer_task(*self._describe(), error)

    async def _offer_task(self, task_id: str, task: object, error: Exception) -> bool:
        """Return True, which swallows the exception, if `quiet` is set and the queue stored the task."""
        stored = await self._offer(task_id, task, error=error, **self._fields)
        return stored is not None and self._quiet


def captured(
    function: Callable[..., Any],
    task_id: Callable[..., str] | None,
    capturing: Callable[[Describe], Capturing],
) -> Callable[..., Any]:
    """Wrap the function so that the queue stores its failed calls."""

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
    """Return the id and the task of a call. Without `task_id`, equal calls have the same id."""
    task = to_json({"args": list(args), "kwargs": kwargs})
    if task_id is not None:
        return task_id(*args, **kwargs), task
    return f"{function.__name__}:{request_hash(task)[:16]}", task


def _add_note(error: Exception, capture_error: Exception) -> bool:
    error.add_note(f"this failure was not stored in the dead-letter queue: {capture_error}")
    return False
