"""The wiring of an application: the only place that picks what it consists of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random, SystemRandom
from secrets import token_bytes
from types import TracebackType
from typing import Any, NamedTuple, Self

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.engine.breakers import Breakers, BreakerSettings
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.definition import Definitions
from redrive.engine.encryption import Encryption
from redrive.engine.enqueue import Enqueuer
from redrive.engine.event_bus import EventBus
from redrive.engine.event_reporter import EndedRunCounts, EventReporter
from redrive.engine.executor import Executor
from redrive.engine.failure_handler import FailureHandler
from redrive.engine.gate import Gate
from redrive.engine.handle import Waiters
from redrive.engine.ids import Ids
from redrive.engine.in_flight import InFlight
from redrive.engine.invoker import Invoker, Threads
from redrive.engine.recorder import Recorder
from redrive.engine.registry import Registry
from redrive.engine.signals import Signals
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.task import AnyTask, checked_name
from redrive.engine.work import WorkFactory
from redrive.engine.worker import Worker
from redrive.engine.worker_parts import WorkerOptions, WorkerParts
from redrive.errors import InvalidValueError
from redrive.failures.bulk_replay_driver import BulkReplayDriver
from redrive.failures.change_stream import Changes
from redrive.failures.parts import FailureParts
from redrive.failures.redrive_processor import Processor, ProcessorOptions
from redrive.idempotency.hold import HeldKeys, KeyServices
from redrive.identity.passwords import Passwords
from redrive.identity.services import IdentityServices
from redrive.model.caller import Caller
from redrive.observe.log import LogListener
from redrive.policy.automatic_redrive import CUSTOM_PREFIX, Function
from redrive.policy.codec import DEFAULT_LIMITS, JsonLimits
from redrive.policy.monitor import DEFAULT_THRESHOLDS, Thresholds
from redrive.policy.redact import DEFAULT_REDACTOR, Redactor
from redrive.policy.template import Template
from redrive.policy.triage import Strategy
from redrive.settings import Settings
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase
from redrive.store.sqlite_session import MEMORY
from redrive.store.store import Store

MAX_TENANTS = 1_000


class Tenant(NamedTuple):
    """What the requests of one organization work on."""

    store: Store
    enqueuer: Enqueuer


class Wiring:
    """What an application consists of; what it offers is in `redrive.app`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        queues: Iterable[str] = (),
        pooler: bool = False,
        durable: bool = True,
        redactor: Redactor = DEFAULT_REDACTOR,
        limits: JsonLimits = DEFAULT_LIMITS,
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        log: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        random: Random | None = None,
    ) -> None:
        self.settings = Settings.load() if settings is None else settings
        self.registry = Registry()
        self.registry.queues |= {checked_name("queue", queue) for queue in queues}
        self.redactor = redactor
        self.limits = limits
        self.thresholds = thresholds
        self.event_bus = EventBus()
        if log:
            self.event_bus.listen(LogListener(clock))
        self.encryption = Encryption(self.settings.read_encryption_keys())
        self.passwords = Passwords()
        self.entropy: Callable[[int], bytes] = token_bytes
        self.templates: list[Template] = []
        self.redrive_functions: dict[str, Function] = {}
        self._breaker_settings: dict[str, BreakerSettings] = {}
        self.after_start: Callable[[], Awaitable[object]] | None = None
        database = database_at(url or self.settings.database_url, self.settings, clock, pooler, durable)
        self.wire(database, clock, SystemRandom() if random is None else random)

    def wire(self, database: Database, clock: Clock, random: Random) -> None:
        """Put the application on a database, a clock and a source of random numbers."""
        self.database = database
        self.clock = clock
        self.random = random
        self.store = Store(database, self._max_letters)
        self.ids = Ids(clock, random)
        self.breakers = Breakers(
            self.store,
            self.event_bus,
            self.ids,
            random,
            self.settings.breaker_policy,
            self._breaker_settings,
        )
        self.changes = Changes(self.store_of, self.breakers, clock, random)
        self.definitions = Definitions(self.store)
        self.waiters = Waiters()
        self._retrier = StoreRetrier(clock, random, self.event_bus)
        self._enqueuer = self._new_enqueuer(self.store)
        self._walled = False
        self._tenants: dict[str, Tenant] = {}
        self._held_keys = HeldKeys(database, clock)
        self._key_services = KeyServices(
            self._held_keys,
            clock,
            self.ids,
            self._retrier,
            self.encryption,
            self.redactor,
            self.limits,
            self.open,
        )
        self._opened: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Bring the tables up to date. Everything that needs them does it by itself."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and not self._loop.is_closed():
            raise InvalidValueError(
                "this application is in use on another event loop; close it there first, "
                "or make an application of its own for each"
            )
        if self._loop is not loop or self._opened is None or _failed(self._opened):
            self._loop = loop
            self._opened = asyncio.create_task(self.store.open())
        if not self._opened.done():
            await asyncio.shield(self._opened)

    async def close(self) -> None:
        self._opened = self._loop = None
        self.changes.close()
        self._held_keys.stop()
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Behind the second wall

    def store_of(self, org: str) -> Store:
        """What an org's requests work on: behind the second wall, once that is raised."""
        return self._tenant(org).store

    async def enable_row_level_security(self) -> None:
        """From now on, what is done for one org cannot touch another's rows, whatever its SQL says."""
        await self.open()
        await self.database.enable_row_level_security()
        self._walled = True

    def _tenant(self, org: str) -> Tenant:
        if not self._walled:
            return Tenant(self.store, self._enqueuer)
        if org not in self._tenants:
            if len(self._tenants) >= MAX_TENANTS:
                self._tenants.clear()
            store = self.store.tenant(org, self.settings.server_statement_sec)
            self._tenants[org] = Tenant(store, self._new_enqueuer(store))
        return self._tenants[org]

    @property
    def _max_letters(self) -> int | None:
        """Live dead letters of an organization at most; None: no limit."""
        return self.settings.dlq_max_size

    def _new_enqueuer(self, store: Store) -> Enqueuer:
        parts = (
            self.registry,
            self.clock,
            self.ids,
            self.event_bus,
            self._retrier,
            self.limits,
            self.encryption,
        )
        return Enqueuer(store, *parts)

    # What is made of the parts

    def _failure_parts(self, caller: Caller) -> FailureParts:
        return FailureParts(
            caller=caller,
            store=self.store_of(caller.org),
            definitions=self.definitions,
            registry=self.registry,
            breakers=self.breakers,
            ids=self.ids,
            event_bus=self.event_bus,
            retrier=self._retrier,
            redactor=self.redactor,
            limits=self.limits,
            clock=self.clock,
            encryption=self.encryption,
            letter_policy=self._letter_policy(),
        )

    def _identity_services(self) -> IdentityServices:
        parts = (self.store, self.ids, self.redactor, self.encryption, self.passwords, self.entropy)
        return IdentityServices(*parts)

    def processor(self) -> Processor:
        """Redrives dead letters that are due. Workers run one, unless the settings say otherwise."""
        parts = (self.store, self.breakers, self.clock, self.event_bus, self.ids, self._retrier)
        return Processor(*parts, self._processor_options())

    def _processor_options(self) -> ProcessorOptions:
        settings, days = self.settings, self.settings.dlq_archive_days
        return ProcessorOptions(
            interval_seconds=settings.dlq_interval_sec,
            archive_seconds=None if days is None else days * 86_400.0,
            max_size=settings.dlq_max_size,
            thresholds=self.thresholds,
            functions=self.redrive_functions,
        )

    def _worker_defaults(self) -> dict[str, Any]:
        settings = self.settings
        days = settings.retention_days
        return {
            "queues": tuple(sorted(self.registry.queues)),
            "concurrency": settings.worker_concurrency,
            "lease_seconds": settings.worker_lease_ttl_sec,
            "poll_seconds": settings.worker_poll_ms / 1000.0,
            "grace_seconds": settings.worker_grace_sec,
            "retention_seconds": None if days is None else days * 86_400.0,
            "redrive": settings.dlq_processor_enabled,
        }

    def _make_worker(self, options: WorkerOptions, threads: Threads | None) -> Worker:
        processor, signals, ended_runs = self.processor(), Signals(self.clock), EndedRunCounts()
        in_flight = InFlight(self.database, self.clock, options.lease_seconds, signals)
        reporter = EventReporter(
            self.event_bus, self.clock, in_flight, signals, ended_runs, self.waiters.finished
        )
        recorder = Recorder(self.store, self._retrier)
        failure_handler = FailureHandler(
            self.clock, self.random, self.ids, recorder, reporter, self._letter_policy()
        )
        works = WorkFactory(
            self.registry, self.definitions, self._retrier, self.encryption, self.settings.org_concurrency
        )
        invoker = Invoker(threads, self.event_bus)
        executor = Executor(
            store=self.store,
            clock=self.clock,
            retrier=self._retrier,
            signals=signals,
            in_flight=in_flight,
            works=works,
            invoker=invoker,
            breakers=self.breakers,
            recorder=recorder,
            reporter=reporter,
            failure_handler=failure_handler,
            limits=self.limits,
            lease_seconds=options.lease_seconds,
            encryption=self.encryption,
        )
        return Worker(
            WorkerParts(
                id=self.ids.new(),
                options=options,
                code_version=self.settings.code_version or "unversioned",
                open=self.open,
                database=self.database,
                store=self.store,
                clock=self.clock,
                random=self.random,
                ids=self.ids,
                event_bus=self.event_bus,
                retrier=self._retrier,
                redactor=self.redactor,
                signals=signals,
                in_flight=in_flight,
                works=works,
                breakers=self.breakers,
                gate=Gate(self.store, self.breakers),
                invoker=invoker,
                executor=executor,
                failure_handler=failure_handler,
                recorder=recorder,
                reporter=reporter,
                ended_runs=ended_runs,
                driver=BulkReplayDriver(self.store, self.breakers, self.event_bus),
                processor=processor,
            )
        )

    def _check_custom_policies(self) -> None:
        """A name that nobody knows would never be redriven."""
        redriven: list[AnyTask | Template] = [*self.registry.tasks.values(), *self.templates]
        for each in redriven:
            name = str(each.redrive).removeprefix(CUSTOM_PREFIX)
            if str(each.redrive).startswith(CUSTOM_PREFIX) and name not in self.redrive_functions:
                raise InvalidValueError(
                    f"{each.name!r} is to be redriven by {each.redrive!r}, which is not known here: name it "
                    f"with app.redrive_function({name!r}, function)"
                )

    def _letter_policy(self) -> DeadLetterPolicy:
        settings = self.settings
        return DeadLetterPolicy(
            self.redactor,
            self.random.random,
            Strategy(settings.dlq_strategy) if settings.dlq_enabled else Strategy.DISABLED,
            settings.dlq_redrive,
            settings.dlq_default_max_retries,
            self.templates,
            self.redrive_functions,
        )


def database_at(url: str, settings: Settings, clock: Clock, pooler: bool, durable: bool) -> Database:
    """sqlite:///relative/path.db, sqlite:////absolute/path.db, sqlite://:memory:, or postgresql://…"""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if not path:
            raise InvalidValueError("the address of a SQLite database is sqlite:///path/to/file.db")
        return SqliteDatabase(path, clock=clock, durable=durable)
    if scheme in ("postgresql", "postgres") and rest:
        return PostgresDatabase(url, schema=settings.schema, pooler=pooler)
    # Not shown: it may hold a password.
    raise InvalidValueError("the address of the database must begin with sqlite:/// or postgresql://")


def memory_database(clock: Clock) -> Database:
    return SqliteDatabase(MEMORY, clock=clock)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
