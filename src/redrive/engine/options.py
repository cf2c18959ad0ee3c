"""What a worker does, and how much of it at once."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.errors import InvalidValueError
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """
    queues             the queues it serves; all that the application knows unless given
    workflows          the only workflows it executes; all unless given (D7)
    concurrency        how many steps it executes at once
    lease_seconds      how long a lease lasts: renewed after a third of it, taken over after all of it
    poll_seconds       how often it looks for work when nobody tells it of any
    grace_seconds      how long it waits for what is in flight when it is told to stop
    heartbeat_seconds  how often it says that it is alive
    retention_seconds  how long finished runs are kept; None: for ever
    redrive            redrive dead letters that are due, as their policies say
    """

    queues: tuple[str, ...]
    workflows: tuple[str, ...] | None = None
    concurrency: int = 100
    lease_seconds: float = 60.0
    poll_seconds: float = 1.0
    grace_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    retention_seconds: float | None = 30 * 86_400.0
    redrive: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "queues", _words("queues", self.queues))
        if self.workflows is not None:
            object.__setattr__(self, "workflows", _words("workflows", self.workflows))
        require_whole("concurrency", self.concurrency, 1, 10_000)
        require("lease_seconds", self.lease_seconds, 0.1, 86_400.0)
        require("poll_seconds", self.poll_seconds, 0.001, 3_600.0)
        require("grace_seconds", self.grace_seconds, 0.0, 86_400.0)
        require("heartbeat_seconds", self.heartbeat_seconds, 0.1, 3_600.0)
        if self.retention_seconds is not None:
            require("retention_seconds", self.retention_seconds, 0.0, 100 * MAX_DELAY_SECONDS)


def _words(name: str, words: object) -> tuple[str, ...]:
    several = tuple(words) if isinstance(words, list | tuple | set | frozenset) else ()
    if not several or not all(isinstance(word, str) for word in several):
        raise InvalidValueError(f"{name} must be a list of at least one name, got {words!r}")
    return several
