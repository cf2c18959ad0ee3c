"""The wiring of an application: the only module that chooses and connects its parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from secrets import token_bytes
from typing import Any, NamedTuple

from redrive.clock import Clock
from redrive.engine.dead_letter_policy import DeadLetterPolicy, StrategyOf, always_automatic
from redrive.engine.definition import Definitions
from redrive.engine.encryption import Encryption
from redrive.engine.enqueue import Enqueuer, Prepared
from redrive.engine.event_bus import EventBus
from redrive.engine.event_reporter import EndedRunCounts, EventReporter
from redrive.engine.executor import Executor
from redrive.engine.failure_handler import FailureHandler
from redrive.engine.gate import Gate
from redrive.engine.handle import RunHandle, RunParts, Waiters
from redrive.engine.ids import Ids
from redrive.engine.in_flight import InFlight
from redrive.engine.invoker import Invoker, Threads
from redrive.engine.known_work import KnownWork
from redrive.engine.recorder import Recorder
from redrive.engine.registry import Registry
from redrive.engine.run_view import RedactedView
from redrive.engine.shared_breakers import BreakerSettings, SharedBreakers
from redrive.engine.signals import Signals
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.strategies import CurrentStrategies
from redrive.engine.task import AnyTask, checked_name
from redrive.engine.work import WorkFactory
from redrive.engine.worker import Worker
from redrive.engine.worker_parts import Drivers, WorkerOptions, WorkerParts
from redrive.errors import InvalidValueError, IsolationError
from redrive.events.control import StreamControl
from redrive.events.ingest import EntryIngest, IngestParts
from redrive.events.mirror import LetterMirror
from redrive.events.rebuild_driver import RebuildDriver
from redrive.events.recorder import EventRecorder
from redrive.events.retention import EventRetention
from redrive.events.service_parts import EventParts
from redrive.events.stream import Stream
from redrive.failures.bulk_replay_driver import BulkReplayDriver
from redrive.failures.change_stream import Changes
from redrive.failures.parts import FailureParts
from redrive.failures.redrive_processor import Processor, ProcessorOptions
from redrive.failures.service import Failures
from redrive.idempotency.hold import HeldKeys, KeyServices
from redrive.idempotency.service import Idempotency
from redrive.identity.passwords import Passwords
from redrive.identity.services import IdentityServices, SessionLimits
from redrive.model.caller import Caller, checked_caller
from redrive.policy.automatic_redrive import CUSTOM_PREFIX, Function
from redrive.policy.codec import JsonLimits
from redrive.policy.monitor import Thresholds
from redrive.policy.redact import Redactor
from redrive.policy.template import Template
from redrive.settings import Settings
from redrive.store.database import Database
from redrive.store.joined import JoinedSession
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase
from redrive.store.sqlite_session import MEMORY
from redrive.store.store import Store

MAX_TENANTS = 1_000
DAY_SECONDS = 86_400.0


@dataclass(kw_only=True)
class Declarations:
    """Everything a program has declared. It survives when a test moves the application to another database.

    entropy  returns the given number of unpredictable bytes
    """

    settings: Settings
    redactor: Redactor
    limits: JsonLimits
    thresholds: Thresholds
    encryption: Encryption
    registry: Registry = field(default_factory=Registry)
    event_bus: EventBus = field(default_factory=EventBus)
    passwords: Passwords = field(default_factory=Passwords)
    entropy: Callable[[int], bytes] = token_bytes
    breakers: dict[str, BreakerSettings] = field(default_factory=dict)
    templates: list[Template] = field(default_factory=list)
    redrive_functions: dict[str, Function] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)

    @property
    def worker_defaults(self) -> dict[str, Any]:
        settings, days = self.settings, self.settings.retention_days
        return {
            "queues": tuple(sorted(self.registry.queues)),
            "concurrency": settings.worker_concurrency,
            "payload_bytes": settings.worker_payload_bytes,
            "lease_seconds": settings.worker_lease_ttl_sec,
            "poll_seconds": settings.worker_poll_ms / 1000.0,
            "grace_seconds": settings.worker_grace_sec,
            "retention_seconds": None if days is None else days * DAY_SECONDS,
            "redrive": settings.dlq_processor_enabled,
        }

    @property
    def processor_options(self) -> ProcessorOptions:
        settings, days = self.settings, self.settings.dlq_archive_days
        return ProcessorOptions(
            interval_seconds=settings.dlq_interval_sec,
            archive_seconds=None if days is None else days * DAY_SECONDS,
            max_size=settings.dlq_max_size,
            thresholds=self.thresholds,
            functions=self.redrive_functions,
        )

    def letter_policy(self, random: Random, strategy_of: StrategyOf) -> DeadLetterPolicy:
        settings = self.settings
        return DeadLetterPolicy(
            self.redactor,
            random.random,
            strategy_of,
            settings.dlq_redrive,
            settings.dlq_default_max_retries,
            self.templates,
            self.redrive_functions,
        )

    def add_redrive_function(self, name: str, function: Function) -> str:
        """Register a custom redrive function under a name. Return the redrive choice that refers to it."""
        if not callable(function):
            raise InvalidValueError(f"a redrive policy must be a function, got {function!r}")
        self.redrive_functions[checked_name("the name of a redrive function", name)] = function
        return CUSTOM_PREFIX + name

    def check_redrive_functions(self) -> None:
        """Reject the name of an unregistered redrive function: its dead letters would never be redriven."""
        owners: list[AnyTask | Template] = [*self.registry.tasks.values(), *self.templates]
        for owner in owners:
            choice = str(owner.redrive_choice)
            name = choice.removeprefix(CUSTOM_PREFIX)
            if choice.startswith(CUSTOM_PREFIX) and name not in self.redrive_functions:
                raise InvalidValueError(
                    f"{owner.name!r} refers to the redrive function {name!r}, which is not registered; "
                    f"pass the function itself: redrive=function"
                )


class Tenant(NamedTuple):
    """The parts that serve the requests of one organization."""

    store: Store
    enqueuer: Enqueuer
    runs: RunParts


class Parts:
    """The parts of an application on one database, with one clock and one source of random numbers.

    after_start  called after each start, in tests
    """

    def __init__(self, declared: Declarations, database: Database, clock: Clock, random: Random) -> None:
        self.declared = declared
        self.registry = declared.registry
        self.event_bus = declared.event_bus
        self.redactor = declared.redactor
        self.limits = declared.limits
        self.encryption = declared.encryption
        self.entropy = declared.entropy
        self.database = database
        self.clock = clock
        self.random = random
        self.store = store = Store(database)
        self.open = store.open
        self.ids = ids = Ids(clock, random)
        self.breakers = SharedBreakers(
            store, self.event_bus, ids, random, declared.settings.breaker_policy, declared.breakers
        )
        self.changes = Changes(self.store_of, self.breakers, clock, random)
        self.definitions = Definitions(store)
        self.strategies = CurrentStrategies(store, clock, declared.settings)
        self.waiters = Waiters()
        self.retrier = StoreRetrier(clock, random, self.event_bus)
        self.enqueuer = self._new_enqueuer(store)
        self.after_start: Callable[[], Awaitable[object]] | None = None
        self.held_keys = HeldKeys(database, clock)
        self.key_services = KeyServices(
            self.held_keys, clock, ids, self.retrier, self.encryption, self.redactor, self.limits
        )
        self._is_walled = False
        self._tenants: dict[str, Tenant] = {}

    @property
    def settings(self) -> Settings:
        return self.declared.settings

    async def close(self) -> None:
        self.changes.close()
        self.held_keys.stop()
        await self.store.close()

    # Tenants

    def store_of(self, org: str) -> Store:
        """The store for an organization's requests; it applies row-level security if that is enabled."""
        return self.tenant(org).store

    async def enable_row_level_security(self) -> IsolationError | None:
        """Prevent requests of one organization from touching another's rows, whatever their SQL says.

        Where the role for it is missing, a database with a single organization is served without it: return
        the error, which names the statements that create the role.
        """
        await self.open()
        try:
            await self.database.enable_row_level_security()
            missing = None
        except IsolationError as error:
            only = await self.store.organizations.sole()
            if only is None:
                raise
            await self.database.serve_only(only)
            missing = error
        self._is_walled = True
        self._tenants.clear()
        return missing

    def tenant(self, org: str) -> Tenant:
        known = self._tenants.get(org)
        if known is not None:
            return known
        if len(self._tenants) >= MAX_TENANTS:
            self._tenants.clear()
        self._tenants[org] = tenant = self._new_tenant(org)
        return tenant

    def _new_tenant(self, org: str) -> Tenant:
        store, enqueuer = self.store, self.enqueuer
        if self._is_walled:
            store = store.tenant(org, self.settings.server_statement_sec)
            enqueuer = self._new_enqueuer(store)
        runs = RunParts(
            org=org,
            store=store,
            definitions=self.definitions,
            clock=self.clock,
            waiters=self.waiters,
            event_bus=self.event_bus,
            encryption=self.encryption,
            redacted_view=RedactedView(self.encryption, self.redactor),
            replay=partial(self._replay_run, org),
        )
        return Tenant(store, enqueuer, runs)

    def _new_enqueuer(self, store: Store) -> Enqueuer:
        parts = (self.registry, self.clock, self.ids, self.event_bus, self.retrier)
        return Enqueuer(store, *parts, self.limits, self.encryption)

    async def start_within(
        self, session: JoinedSession, prepared: Sequence[Prepared]
    ) -> list[RunHandle[Any]]:
        """Store runs in the user's own transaction. Their definitions must already be stored."""
        ids = await self.enqueuer.start_within(session, prepared)
        return [
            RunHandle(run_id, self.tenant(new.org).runs, self.registry.result_reader(new.workflow))
            for run_id, (new, _) in zip(ids, prepared, strict=True)
        ]

    async def _replay_run(self, org: str, run_id: str, by: str, reason: str) -> None:
        caller = Caller(org, checked_caller(by))
        await Failures(self.failure_parts(caller)).replay_run(run_id, reason=reason)

    # Services

    def failure_parts(self, caller: Caller) -> FailureParts:
        return FailureParts(
            caller=caller,
            store=self.store_of(caller.org),
            definitions=self.definitions,
            registry=self.registry,
            breakers=self.breakers,
            ids=self.ids,
            event_bus=self.event_bus,
            retrier=self.retrier,
            redactor=self.redactor,
            limits=self.limits,
            clock=self.clock,
            encryption=self.encryption,
            letter_policy=self.declared.letter_policy(self.random, self.strategies.of),
            strategies=self.strategies,
        )

    def event_parts(self, caller: Caller) -> EventParts:
        tenant, failures = self.tenant(caller.org), Failures(self.failure_parts(caller))
        return EventParts(
            caller=caller,
            store=tenant.store,
            recorder=self._event_recorder(tenant.store, tenant.enqueuer),
            ids=self.ids,
            retrier=self.retrier,
            encryption=self.encryption,
            redactor=self.redactor,
            streams=self.declared.streams,
            retry_run=failures.replay_run,
            plan=failures.plans.create,
        )

    def entry_ingest(self, stream: Stream) -> EntryIngest:
        """The service that stores the entries of a stream, in all organizations of the stream."""
        return EntryIngest(
            stream,
            IngestParts(
                store=self.store,
                recorder=self._event_recorder(self.store, self.enqueuer),
                registry=self.registry,
                event_bus=self.event_bus,
                letter_policy=self.declared.letter_policy(self.random, always_automatic),
                redactor=self.redactor,
                encryption=self.encryption,
                limits=self.limits,
                clock=self.clock,
                ids=self.ids,
                code_version=self.settings.code_version or "unversioned",
            ),
        )

    def stream_control(self, stream: Stream) -> StreamControl:
        return StreamControl(stream, self.store, self.ids, self.clock, self.event_bus)

    def letter_mirror(self, stream: Stream) -> LetterMirror:
        return LetterMirror(stream, self.store, self.ids)

    def _event_recorder(self, store: Store, enqueuer: Enqueuer) -> EventRecorder:
        return EventRecorder(store, enqueuer, self.ids, self.clock, self.encryption, self.limits)

    def idempotency(self, org: str) -> Idempotency:
        keys = self.store_of(checked_name("org", org)).idempotency
        return Idempotency(self.key_services, keys, org)

    def identity_services(self) -> IdentityServices:
        settings = self.settings
        return IdentityServices(
            self.store,
            self.ids,
            self.redactor,
            self.encryption,
            self.declared.passwords,
            self.entropy,
            SessionLimits(settings.session_days * DAY_SECONDS, settings.session_idle_hours * 3600.0),
        )

    def processor(self) -> Processor:
        """Create the processor that redrives due dead letters. Workers run one unless it is disabled."""
        parts = (self.store, self.breakers, self.clock, self.event_bus, self.ids, self.retrier)
        return Processor(*parts, self.declared.processor_options)

    def _driver(self) -> Drivers:
        recorder = self._event_recorder(self.store, self.enqueuer)
        return Drivers(
            BulkReplayDriver(self.store, self.breakers, self.event_bus),
            RebuildDriver(self.store, recorder, self.declared.streams),
        )

    def worker_in_test(self) -> Worker:
        """Create a worker that calls sync tasks directly, for redrive.testing."""
        return self.worker(WorkerOptions(**self.declared.worker_defaults), None)

    def worker(self, options: WorkerOptions, threads: Threads | None) -> Worker:
        processor, signals, ended_runs = self.processor(), Signals(self.clock), EndedRunCounts()
        worker_id = self.ids.new()
        in_flight = InFlight(self.database, self.clock, options.lease_seconds, signals, worker_id)
        known_work = KnownWork(self.registry, self.clock, options.workflows)
        reporter = EventReporter(
            self.event_bus, self.clock, in_flight, signals, ended_runs, self.waiters.finished
        )
        recorder = Recorder(self.store, self.retrier, reporter)
        letter_policy = self.declared.letter_policy(self.random, self.strategies.of)
        failure_handler = FailureHandler(
            self.clock,
            self.random,
            self.ids,
            recorder,
            reporter,
            letter_policy,
            self.settings.retry_after_max_days * DAY_SECONDS,
            known_work,
        )
        works = WorkFactory(
            self.registry, self.definitions, self.retrier, self.encryption, self.settings.org_concurrency
        )
        invoker = Invoker(threads, self.event_bus)
        executor = Executor(
            database=self.database,
            store=self.store,
            clock=self.clock,
            retrier=self.retrier,
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
                id=worker_id,
                options=options,
                code_version=self.settings.code_version or "unversioned",
                open=self.open,
                database=self.database,
                store=self.store,
                clock=self.clock,
                random=self.random,
                ids=self.ids,
                event_bus=self.event_bus,
                retrier=self.retrier,
                redactor=self.redactor,
                signals=signals,
                in_flight=in_flight,
                known_work=known_work,
                works=works,
                strategies=self.strategies,
                breakers=self.breakers,
                gate=Gate(self.store, self.breakers),
                invoker=invoker,
                executor=executor,
                failure_handler=failure_handler,
                recorder=recorder,
                reporter=reporter,
                ended_runs=ended_runs,
                driver=self._driver(),
                processor=processor,
                event_retention=EventRetention(self.store, self.declared.streams),
            )
        )


def database_at(url: str, settings: Settings, clock: Clock, pooler: bool, durable: bool) -> Database:
    """sqlite:///relative/path.db, sqlite:////absolute/path.db, sqlite://:memory:, or postgresql://…"""
    if not isinstance(url, str):
        raise InvalidValueError(f"the database URL must be a string, got {type(url).__name__}")
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if not path:
            raise InvalidValueError("the SQLite database URL has no path; use sqlite:///path/to/file.db")
        return SqliteDatabase(path, clock=clock, durable=durable)
    if scheme in ("postgresql", "postgres") and rest:
        return PostgresDatabase(url, schema=settings.schema, pooler=pooler)
    # The URL may contain a password, so the message must not include it.
    raise InvalidValueError("the database URL must start with sqlite:/// or postgresql://")


def memory_database(clock: Clock) -> Database:
    return SqliteDatabase(MEMORY, clock=clock)
