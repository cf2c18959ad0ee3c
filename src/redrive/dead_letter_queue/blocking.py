"""A dead-letter queue for programs without an event loop: the same methods, but blocking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from redrive.dead_letter_queue.operations import QueueOperations
from redrive.engine.background_loop import Facade, waiting
from redrive.model.failed_task import FailedTask


class BlockingQueue(Facade):
    """Failed tasks by id, used much like a dict. A `with` block closes the queue at the end."""

    def __init__(self, queue: QueueOperations) -> None:
        super().__init__(queue, queue.app.sync.loop)
        self._queue = queue
        self.capturing = queue.capturing
        self.capture = queue.capture

    enqueue = waiting(QueueOperations.enqueue)
    offer = waiting(QueueOperations.offer)
    get = waiting(QueueOperations.get)
    contains = waiting(QueueOperations.contains)
    size = waiting(QueueOperations.size)
    list = waiting(QueueOperations.list)
    statistics = waiting(QueueOperations.statistics)
    retry = waiting(QueueOperations.retry)
    archive = waiting(QueueOperations.archive)
    unlink = waiting(QueueOperations.unlink)
    clear = waiting(QueueOperations.clear)
    strategy = waiting(QueueOperations.strategy)
    set_strategy = waiting(QueueOperations.set_strategy)
    stop = waiting(QueueOperations.stop)

    # Other names of these methods
    get_task, list_tasks, retry_task, archive_task = get, list, retry, archive  # noqa: A003
    get_statistics, clear_all, stop_retry_processor = statistics, clear, stop
    start_retry_processor = waiting(QueueOperations.start_retry_processor)

    def on_behalf_of(self, by: str) -> BlockingQueue:
        return BlockingQueue(self._queue.on_behalf_of(by))

    def __getitem__(self, task_id: str) -> FailedTask:
        found = self.get(task_id)
        if found is None:
            raise KeyError(task_id)
        return found

    def __contains__(self, task_id: object) -> bool:
        return isinstance(task_id, str) and self.contains(task_id)

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of live tasks, the oldest first. `len` counts the same tasks."""

        async def ids() -> tuple[str, ...]:
            return tuple([task_id async for task_id in self._queue])

        return iter(self._loop.wait_for(ids()))

    def __len__(self) -> int:
        return self.size()

    def __bool__(self) -> bool:
        """Return True even if the queue is empty, unlike a dict."""
        return True

    @property
    def state(self) -> str:
        return self._queue.state

    def start(self) -> None:
        async def start() -> None:
            self._queue.start()

        self._loop.wait_for(start())

    @contextmanager
    def processing(self) -> Iterator[Self]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def close(self) -> None:
        self.stop()
        self._queue.app.sync.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
