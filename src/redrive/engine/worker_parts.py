"""The options and parts of a worker. `redrive.wiring` connects the parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
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
from redrive.engine.known_work import KnownWork
from redrive.engine.recorder import Recorder
from redrive.engine.shared_breakers import SharedBreakers
from redrive.engine.signals import Signals
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.strategies import CurrentStrategies
from redrive.engine.work import WorkFactory
from redrive.errors import InvalidValueError
from redrive.policy.bounds import MAX_DELAY_SECONDS, require_kind, require_list, require_whole, set_seconds
from redrive.policy.redact import Redactor
from redrive.store.database import Database
from redrive.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """
    queues             the queues it serves; default: all queues of the application
    workflows          the workflows it executes; default: all
    concurrency        the maximum number of steps it executes at once
    payload_bytes      the maximum size of the payloads it holds at once; one claim may exceed it
    lease_seconds      the duration of a lease: renewed after a third of it, taken over when it expires
    poll_seconds       the interval between polls for work if no hint arrives
    grace_seconds      how long running steps may take to finish after a stop request
    heartbeat_seconds  the interval between heartbeats
    retention_seconds  how long finished runs are kept; None: forever
    redrive            redrive due dead letters according to their policies

    Durations can also be timedeltas.
    """

    queues: tuple[str, ...]
    workflows: tuple[str, ...] | None = None
    concurrency: int = 100
    payload_bytes: int = 33_554_432
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
        require_whole("payload_bytes", self.payload_bytes, 1, 1 << 40)
        set_seconds(self, "lease_seconds", 0.1, 86_400.0)
        set_seconds(self, "poll_seconds", 0.001, 3_600.0)
        set_seconds(self, "grace_seconds", 0.0, 86_400.0)
        set_seconds(self, "heartbeat_seconds", 0.1, 3_600.0)
        if self.retention_seconds is not None:
            set_seconds(self, "retention_seconds", 0.0, 100 * MAX_DELAY_SECONDS)
        require_kind("redrive", self.redrive, bool)


def _words(name: str, words: Iterable[object]) -> tuple[str, ...]:
    require_list(name, words, "names")
    names = tuple(words)
    if not names or not all(isinstance(word, str) for word in names):
        raise InvalidValueError(f"{name} must be a list of at least one name, got {words!r}")
    return names  # type: ignore[return-value]  # checked above


class ReplayDriver(Protocol):
    """Advances bulk replays or rebuilds."""

    async def tick(self) -> float:
        """Advance them. Return the seconds until there may be more to do; 0 if there is more now."""


class Drivers:
    """Several drivers as one."""

    def __init__(self, *drivers: ReplayDriver) -> None:
        self._drivers = drivers

    async def tick(self) -> float:
        return min([await driver.tick() for driver in self._drivers])


class EventRemover(Protocol):
    """Removes stored events that are older than their stream keeps them."""

    async def remove_expired(self, most: int) -> bool:
        """Remove a batch of old events of each stream. Return True if there may be more."""


class RedriveProcessor(Protocol):
    """Redrives dead letters that are due."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def run_once(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The parts that the loops of one worker share. `open` creates or upgrades the tables."""

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
    known_work: KnownWork
    works: WorkFactory
    strategies: CurrentStrategies
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
    event_retention: EventRemover

    def seconds_until_poll(self) -> float:
        """The poll interval with jitter, so that workers do not poll at the same time."""
        return self.options.poll_seconds * (0.75 + 0.5 * self.random.random())
