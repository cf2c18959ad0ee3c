"""What a worker is made of, and how it is configured. `redrive.wiring` puts the parts together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.engine.event_reporter import EndedRunCounts, EventReporter
from redrive.engine.executor import Executor
from redrive.engine.failure_handler import FailureHandler
from redrive.engine.gate import Gate
from redrive.engine.ids import Ids
from redrive.engine.in_flight import InFlight
from redrive.engine.invoker import Invoker
from redrive.engine.recorder import Recorder
from redrive.engine.shared_breakers import SharedBreakers
from redrive.engine.signals import Signals
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.work import WorkFactory
from redrive.errors import InvalidValueError
from redrive.policy.bounds import MAX_DELAY_SECONDS, require_whole, set_seconds
from redrive.policy.redact import Redactor
from redrive.store.database import Database
from redrive.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """
    queues             the queues it serves; all queues of the application unless given
    workflows          the only workflows it executes; all unless given
    concurrency        how many steps it executes at once
    lease_seconds      how long a lease lasts: renewed after a third of it, taken over after all of it
    poll_seconds       how often it looks for work when no hint arrives
    grace_seconds      how long running steps may take to finish after it was asked to stop
    heartbeat_seconds  how often it reports that it is alive
    retention_seconds  how long finished runs are kept; None: forever
    redrive            redrive dead letters that are due, as their policies say

    Durations can be given as timedeltas, too.
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
        set_seconds(self, "lease_seconds", 0.1, 86_400.0)
        set_seconds(self, "poll_seconds", 0.001, 3_600.0)
        set_seconds(self, "grace_seconds", 0.0, 86_400.0)
        set_seconds(self, "heartbeat_seconds", 0.1, 3_600.0)
        if self.retention_seconds is not None:
            set_seconds(self, "retention_seconds", 0.0, 100 * MAX_DELAY_SECONDS)


def _words(name: str, words: object) -> tuple[str, ...]:
    several = tuple(words) if isinstance(words, list | tuple | set | frozenset) else ()
    if not several or not all(isinstance(word, str) for word in several):
        raise InvalidValueError(f"{name} must be a list of at least one name, got {words!r}")
    return several


class ReplayDriver(Protocol):
    """Brings bulk replays forward."""

    async def tick(self) -> float:
        """Seconds until there may be more to do, 0 when there is."""


class RedriveProcessor(Protocol):
    """Redrives dead letters that are due."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def run_once(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The parts that the loops of one worker share. `open` brings the tables of the store up to date."""

    id: str
    options: WorkerOptions
    code_version: str
    open: Callable[[], Awaitable[None]]
    database: Database
    store: Store
    clock: Clock
    random: Random
    ids: Ids
    event_bus: EventBus
    retrier: StoreRetrier
    redactor: Redactor
    signals: Signals
    in_flight: InFlight
    works: WorkFactory
    breakers: SharedBreakers
    gate: Gate
    invoker: Invoker
    executor: Executor
    failure_handler: FailureHandler
    recorder: Recorder
    reporter: EventReporter
    ended_runs: EndedRunCounts
    driver: ReplayDriver
    processor: RedriveProcessor

    def seconds_until_poll(self) -> float:
        """The poll interval with jitter, so that workers do not poll in step."""
        return self.options.poll_seconds * (0.75 + 0.5 * self.random.random())
