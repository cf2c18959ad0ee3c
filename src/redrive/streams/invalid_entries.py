"""Entries that could not be stored, and when each is tried again. They stay pending in Redis meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from redrive.events import StreamEntry
from redrive.policy.retry import RetryPolicy


class InvalidEntry(NamedTuple):
    """An entry with the error of its last attempt. `due` is on the monotonic clock."""

    entry: StreamEntry
    error: Exception
    attempts: int
    due: float


class InvalidEntries:
    """The invalid entries of one consumer."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._entries: dict[str, InvalidEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def ids(self) -> Collection[str]:
        return self._entries.keys()

    def attempts(self, entry: StreamEntry) -> int:
        known = self._entries.get(entry.message_id)
        return 0 if known is None else known.attempts

    def failed(self, entry: StreamEntry, error: Exception, *, now: float, draw: float) -> InvalidEntry | None:
        """Note a failed attempt. Return the entry if its attempts are used up."""
        attempts = self.attempts(entry) + 1
        wait = (
            None if attempts >= self._policy.max_attempts else self._policy.backoff.wait(attempts, draw=draw)
        )
        due = now if wait is None else now + wait.seconds
        self._entries[entry.message_id] = failed = InvalidEntry(entry, error, attempts, due)
        return failed if wait is None else None

    def due(self, now: float) -> list[InvalidEntry]:
        return [invalid for invalid in self._entries.values() if invalid.due <= now]

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next entry is due; None without one."""
        return min((max(0.0, invalid.due - now) for invalid in self._entries.values()), default=None)

    def decided(self, message_id: str) -> None:
        self._entries.pop(message_id, None)

    def forget(self) -> None:
        """Forget all entries. They stay pending, and a consumer takes them over."""
        self._entries.clear()
