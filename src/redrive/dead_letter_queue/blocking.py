"""A dead-letter queue for programs without an event loop: the same methods, waiting for their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from redrive.model.failed_task import FailedTask, RetryOutcome
from redrive.model.statistics import Statistics

if TYPE_CHECKING:
    from redrive.dead_letter_queue.queue import DeadLetterQueue
    from redrive.dead_letter_queue.tasks import TaskFields


class BlockingQueue:
    """Everything is done by the async queue, on a loop in a thread of its own."""

    def __init__(self, queue: DeadLetterQueue) -> None:
        self._queue = queue
        self._wait = queue.app.sync.wait_for

    def enqueue(
        self, task_id: str, task: object = None, *, error: BaseException | str, **fields: Unpack[TaskFields]
    ) -> FailedTask:
        return self._wait(self._queue.enqueue(task_id, task, error=error, **fields))

    def get(self, task_id: str) -> FailedTask | None:
        return self._wait(self._queue.get(task_id))

    def __getitem__(self, task_id: str) -> FailedTask:
        found = self.get(task_id)
        if found is None:
            raise KeyError(task_id)
        return found

    def __contains__(self, task_id: object) -> bool:
        return isinstance(task_id, str) and self._wait(self._queue.contains(task_id))

    def __len__(self) -> int:
        return self._wait(self._queue.size())

    def __bool__(self) -> bool:
        """It is there, also when nothing is in it."""
        return True

    def list(self, status: str | None = None, *, limit: int = 100) -> list[FailedTask]:
        return self._wait(self._queue.list(status, limit=limit))

    def statistics(self) -> Statistics:
        return self._wait(self._queue.statistics())

    def retry(self, task_id: str, *, reason: str = "") -> RetryOutcome:
        return self._wait(self._queue.retry(task_id, reason=reason))

    def archive(self, task_id: str, *, reason: str = "") -> FailedTask:
        return self._wait(self._queue.archive(task_id, reason=reason))

    def clear(self, *, confirm: str) -> int:
        return self._wait(self._queue.clear(confirm=confirm))

    @property
    def state(self) -> str:
        return self._queue.state

    def start(self) -> None:
        self._wait(self._start())

    def stop(self) -> None:
        self._wait(self._queue.stop())

    def close(self) -> None:
        self.stop()
        self._queue.app.sync.close()

    async def _start(self) -> None:
        self._queue.start()
