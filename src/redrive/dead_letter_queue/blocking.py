"""A dead-letter queue for programs without an event loop: the same methods, waiting for their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from redrive.model.failed_task import FailedTask, RetryOutcome
from redrive.model.statistics import Statistics

if TYPE_CHECKING:
    from redrive.dead_letter_queue.capture import Capturing
    from redrive.dead_letter_queue.queue import DeadLetterQueue
    from redrive.dead_letter_queue.tasks import TaskFields


class BlockingQueue:
    """Everything is done by the async queue, on a loop in a thread of its own. `with` closes it at last."""

    def __init__(self, queue: DeadLetterQueue) -> None:
        self._queue = queue
        self._wait = queue.app.sync.wait_for

    def __repr__(self) -> str:
        return f"<blocking {self._queue!r}>"

    # Putting in and looking up

    def enqueue(
        self, task_id: str, task: object = None, *, error: BaseException | str, **fields: Unpack[TaskFields]
    ) -> FailedTask:
        return self._wait(self._queue.enqueue(task_id, task, error=error, **fields))

    def offer(
        self, task_id: str, task: object = None, *, error: BaseException | str, **fields: Unpack[TaskFields]
    ) -> FailedTask | None:
        return self._wait(self._queue.offer(task_id, task, error=error, **fields))

    def get(self, task_id: str) -> FailedTask | None:
        return self._wait(self._queue.get(task_id))

    def __getitem__(self, task_id: str) -> FailedTask:
        found = self.get(task_id)
        if found is None:
            raise KeyError(task_id)
        return found

    def __contains__(self, task_id: object) -> bool:
        return isinstance(task_id, str) and self._wait(self._queue.contains(task_id))

    def __iter__(self) -> Iterator[str]:
        """Ids of the tasks that are not done with, as many as `len`."""
        return iter(self._wait(self._ids()))

    def __len__(self) -> int:
        return self._wait(self._queue.size())

    def __bool__(self) -> bool:
        """It is there, also when nothing is in it."""
        return True

    def list(self, status: str | None = None, *, limit: int = 100) -> list[FailedTask]:
        return self._wait(self._queue.list(status, limit=limit))

    def statistics(self) -> Statistics:
        return self._wait(self._queue.statistics())

    # Doing something about it

    def retry(self, task_id: str, *, reason: str = "", timeout: float | None = None) -> RetryOutcome:
        return self._wait(self._queue.retry(task_id, reason=reason, timeout=timeout))

    def archive(self, task_id: str, *, reason: str = "") -> FailedTask:
        return self._wait(self._queue.archive(task_id, reason=reason))

    def unlink(self, task_id: str, other: str) -> bool:
        return self._wait(self._queue.unlink(task_id, other))

    def clear(self, *, confirm: str) -> int:
        return self._wait(self._queue.clear(confirm=confirm))

    # Executing in the background

    @property
    def state(self) -> str:
        return self._queue.state

    def start(self) -> None:
        self._wait(self._start())

    def stop(self) -> None:
        self._wait(self._queue.stop())

    @contextmanager
    def processing(self) -> Iterator[Self]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    # Capturing failures

    def capturing(
        self, task_id: str, task: object = None, *, quiet: bool = False, **fields: Unpack[TaskFields]
    ) -> Capturing:
        return self._queue.capturing(task_id, task, quiet=quiet, **fields)

    def capture(
        self,
        task_id: Callable[..., str] | None = None,
        *,
        quiet: bool = False,
        **fields: Unpack[TaskFields],
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return self._queue.capture(task_id, quiet=quiet, **fields)

    # Opening and closing

    def close(self) -> None:
        self.stop()
        self._queue.app.sync.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Inside

    async def _start(self) -> None:
        self._queue.start()

    async def _ids(self) -> list[str]:  # type: ignore[valid-type]  # mypy: `list` is a method here
        return [task_id async for task_id in self._queue]
