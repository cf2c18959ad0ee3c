"""Capturing failures of a block, or of every call of a function, by the strategy of the queue."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any

from redrive.engine.payload import to_json
from redrive.policy.idempotency import request_hash

if TYPE_CHECKING:
    from redrive.dead_letter_queue.queue import DeadLetterQueue
    from redrive.dead_letter_queue.tasks import TaskFields

Describe = Callable[[], tuple[str, object]]
"""Returns the id and the task; called only after a failure."""


class Capturing:
    """`async with`, or `with` in programs without an event loop. The exception propagates, unless `quiet`."""

    def __init__(self, queue: DeadLetterQueue, describe: Describe, quiet: bool, fields: TaskFields) -> None:
        self._queue = queue
        self._describe = describe
        self._quiet = quiet
        self._fields = fields

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
            return self._queue.app.sync.wait_for(self._keep(error))
        except Exception as own:  # noqa: BLE001
            return _add_note(error, own)

    def _keep(self, error: Exception) -> Coroutine[Any, Any, bool]:
        """Offer the task to the queue. It is described on the calling thread, not on the background loop."""
        return self._offer(*self._describe(), error)

    async def _offer(self, task_id: str, task: object, error: Exception) -> bool:
        """True to swallow the exception: only when the task was kept."""
        kept = await self._queue.offer(task_id, task, error=error, **self._fields)
        return kept is not None and self._quiet


def captured(
    queue: DeadLetterQueue,
    function: Callable[..., Any],
    task_id: Callable[..., str] | None,
    quiet: bool,
    fields: TaskFields,
) -> Callable[..., Any]:
    """Wrap the function, so that the queue keeps its failures."""

    def capturing(*args: Any, **kwargs: Any) -> Capturing:
        describe = partial(_described, function, task_id, args, kwargs)
        return Capturing(queue, describe, quiet, fields)

    if iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            async with capturing(*args, **kwargs):
                return await function(*args, **kwargs)

        return call_async

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with capturing(*args, **kwargs):
            return function(*args, **kwargs)

    return call


def _described(
    function: Callable[..., Any],
    task_id: Callable[..., str] | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[str, object]:
    """Id and task of a call. Without `task_id`, the same call is the same task."""
    task = to_json({"args": list(args), "kwargs": kwargs})
    if task_id is not None:
        return task_id(*args, **kwargs), task
    return f"{function.__name__}:{request_hash(task)[:16]}", task


def _add_note(error: Exception, own: Exception) -> bool:
    error.add_note(f"it was not kept in the dead-letter queue: {own}")
    return False
