"""The application object: wiring and delegation only."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from random import Random, SystemRandom
from secrets import token_bytes
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.config import Settings
from redrive.engine.breaker_book import BreakerBook
from redrive.engine.breakers import Breakers, BreakerSettings, Probe, SharedBreaker
from redrive.engine.burial import Burial
from redrive.engine.changes import Changes
from redrive.engine.controls import Controls
from redrive.engine.credentials import Credentials
from redrive.engine.definition import Definition, StepDefinition
from redrive.engine.desk import Desk
from redrive.engine.directory import Directory
from redrive.engine.driver import OperationDriver
from redrive.engine.enqueue import DEFAULT_ORG, Enqueuer, Prepared, StartOptions
from redrive.engine.executor import Executor
from redrive.engine.gate import Gate
from redrive.engine.handle import RunHandle, Waiters
from redrive.engine.herald import Herald
from redrive.engine.idempotency import Idempotency
from redrive.engine.idempotent import Idempotent, KeyOptions
from redrive.engine.identity_kit import IdentityKit
from redrive.engine.ids import Ids
from redrive.engine.invoke import Invoker
from redrive.engine.judge import Judge
from redrive.engine.key_hold import KeyKit
from redrive.engine.key_keeper import KeyKeeper
from redrive.engine.options import WorkerOptions
from redrive.engine.passwords import Passwords
from redrive.engine.patience import Patience
from redrive.engine.processor import Processor, ProcessorOptions
from redrive.engine.queue_book import QueueBook
from redrive.engine.recorder import Recorder
from redrive.engine.registry import Definitions, Registry
from redrive.engine.replays import Kit
from redrive.engine.rotation import Rotated, Rotation
from redrive.engine.run_book import RunBook
from redrive.engine.sessions import Sessions
from redrive.engine.showing import Showing
from redrive.engine.sign_in import Span
from redrive.engine.task import Task, TaskOptions, checked_name, refuse_unknown
from redrive.engine.telling import Listener, Teller
from redrive.engine.threads import Threads
from redrive.engine.vault import Vault
from redrive.engine.worker import Worker
from redrive.errors import InvalidValueError
from redrive.model.breaker import BreakerState
from redrive.model.caller import APPLICATION, Caller, checked_caller
from redrive.observe.log import LogListener
from redrive.policy.bounds import require_kind
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.codec import DEFAULT_LIMITS, Limits
from redrive.policy.monitor import DEFAULT_THRESHOLDS, Thresholds
from redrive.policy.principal import Principal, program
from redrive.policy.ramp import Ramp
from redrive.policy.redact import DEFAULT_REDACTOR, Redactor
from redrive.policy.redriving import CUSTOM_PREFIX, Function
from redrive.policy.strategy import Strategy
from redrive.policy.template import Template
from redrive.store.database import Database
from redrive.store.foreign import ForeignSession, foreign_session
from redrive.store.holds import QueueRow, WorkerRow
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase
from redrive.store.store import Store

if TYPE_CHECKING:
    from redrive.blocking import Blocking

F = TypeVar("F", bound=Callable[..., Any])

MOST_TENANTS = 1_000
GARBAGE = 10_000
"""Objects that a worker process makes between two collections of garbage."""


class Redrive:
    """Tasks, workflows and the store they run on.

    app = Redrive("sqlite:///work.db")          or postgresql://user@host/database

    @app.task(retry=..., timeout=30)
    async def charge(order: Order) -> Receipt: ...

    run = await app.start(charge, order, key="order-7")
    await run.result()
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        queues: Iterable[str] = (),
        pooler: bool = False,
        durable: bool = True,
        redactor: Redactor = DEFAULT_REDACTOR,
        limits: Limits = DEFAULT_LIMITS,
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
        self.teller = Teller()
        if log:
            self.teller.listen(LogListener(clock))
        self.vault = Vault(self.settings.read_encryption_keys())
        self.passwords = Passwords()
        self.entropy: Callable[[int], bytes] = token_bytes
        self.templates: list[Template] = []
        self.redrive_functions: dict[str, Function] = {}
        self._breaker_settings: dict[str, BreakerSettings] = {}
        self._sync: Blocking | None = None
        self.after_start: Callable[[], Awaitable[object]] | None = None
        database = database_at(url or self.settings.database_url, self.settings, clock, pooler, durable)
        self.wire(database, clock, SystemRandom() if random is None else random)

    def wire(self, database: Database, clock: Clock, random: Random) -> None:
        """Put the application on a database, a clock and a source of random numbers."""
        self.database = database
        self.clock = clock
        self.random = random
        self.store = self._new_store(database)
        self.ids = Ids(clock, random)
        self.breakers = Breakers(self.store, self.teller, self.ids, random, self.settings.breaker_policy)
        self.breakers.settings |= self._breaker_settings
        self.changes = Changes(self.store_of, self.breakers, clock, random)
        self.definitions = Definitions(self.store)
        self.waiters = Waiters()
        self._patience = Patience(clock, random, self.teller)
        self._enqueuer = self._new_enqueuer(self.store)
        self._walled = False
        self._tenants: dict[str, tuple[Store, Enqueuer]] = {}
        self._key_kit = KeyKit(
            self.store.idempotency,
            KeyKeeper(database, clock),
            clock,
            self.ids,
            self._patience,
            self.vault,
            self.redactor,
            self.limits,
            self.open,
        )
        self._opened: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # Saying what there is

    @overload
    def task(self, function: Callable[..., Any], /) -> Task: ...

    @overload
    def task(self, **options: Unpack[TaskOptions]) -> Callable[[Callable[..., Any]], Task]: ...

    def task(  # type: ignore[misc]  # mypy: the options of the overload
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> Task | Callable[[Callable[..., Any]], Task]:
        """Register a function, sync or async, as a task: see TaskOptions."""

        def register(function: Callable[..., Any]) -> Task:
            defaults = {"retry": self.settings.retry_policy, "timeout": self.settings.task_timeout}
            task = Task.of(function, {**defaults, **options})
            self.registry.add_task(task)
            return task

        return register if function is None else register(function)

    def workflow(self, name: str, steps: Sequence[Task | StepDefinition]) -> Definition:
        """Name an ordered list of steps: the first receives the payload, the others what the last gave."""
        return self.registry.add_workflow(name, steps)

    def breaker(
        self,
        name: str,
        policy: BreakerPolicy | None = None,
        *,
        probe: Probe | None = None,
        ramp: Ramp | None = None,
    ) -> None:
        """Say how the breaker of a dependency works. `probe` is a function that tells whether it is back."""
        checked_name("breaker", name)
        policy = self.settings.breaker_policy if policy is None else policy
        settings = BreakerSettings(policy, probe, Ramp() if ramp is None else ramp)
        self._breaker_settings[name] = self.breakers.settings[name] = settings

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every event of the engine (redrive.model.event). It must be quick."""
        self.teller.listen(listener)

    # Starting and looking up

    async def start(
        self,
        work: str | Task | Definition,
        payload: object = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle:
        """Start a run: see StartOptions. With `connection`, as part of your own PostgreSQL transaction."""
        prepared = self._enqueuer.prepare(name_of(work), payload, options)
        if connection is not None:
            return (await self._start_within(connection, [prepared]))[0]
        await self.open()
        run_id = await self._tenant(prepared[0].org)[1].start(*prepared)
        await self._after_start()
        handle = self.run(run_id, prepared[0].org)
        handle.existed = run_id != prepared[0].id
        return handle

    async def start_many(
        self,
        work: str | Task | Definition,
        payloads: Iterable[object],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[RunHandle]:
        """Start many runs, all or none of them; `keys` are their idempotency keys."""
        prepared = self._enqueuer.prepare_many(name_of(work), payloads, keys, options)
        if connection is not None:
            return await self._start_within(connection, list(prepared))
        await self.open()
        org, made = options.get("org", DEFAULT_ORG), set[str]()
        ids = await self._tenant(org)[1].start_many(_noted(prepared, made))
        await self._after_start()
        handles = [self.run(run_id, org) for run_id in ids]
        for handle in handles:
            handle.existed = handle.id not in made
        return handles

    def prepare(
        self,
        work: str | Task | Definition,
        payloads: Iterable[object],
        keys: Iterable[str] | None,
        options: StartOptions,
    ) -> list[Prepared]:
        """Runs to be started within a transaction, by `define` and then `start_within`."""
        return list(self._enqueuer.prepare_many(name_of(work), payloads, keys, options))

    async def define(self, prepared: Sequence[Prepared]) -> None:
        """Store what the runs consist of, outside of the transaction that they are started in."""
        await self.open()
        await self._enqueuer.define(prepared)

    async def start_within(self, session: ForeignSession, prepared: Sequence[Prepared]) -> list[RunHandle]:
        return self._handles(await self._enqueuer.start_within(session, prepared), prepared)

    async def _start_within(self, connection: object, prepared: Sequence[Prepared]) -> list[RunHandle]:
        session = foreign_session(connection, self.database)
        await self.define(prepared)
        return await self.start_within(session, prepared)

    async def _after_start(self) -> None:
        if self.after_start is not None:
            await self.after_start()

    def _handles(self, ids: Sequence[str], prepared: Sequence[Prepared]) -> list[RunHandle]:
        return [self.run(run_id, new.org) for run_id, (new, _) in zip(ids, prepared, strict=True)]

    def run(self, run_id: str, org: str = DEFAULT_ORG) -> RunHandle:
        """A handle on a run that was started before."""
        parts = (self.store_of(org), self.definitions, self.clock, self.waiters, self.teller, self.open)
        return RunHandle(run_id, org, *parts, self.vault)

    def store_of(self, org: str) -> Store:
        """What an org's requests work on: behind the second wall, once that is raised."""
        return self._tenant(org)[0]

    async def raise_wall(self) -> None:
        """From now on, what is done for one org cannot touch another's rows, whatever its SQL says."""
        await self.open()
        await self.database.prepare_wall()
        self._walled = True

    def _tenant(self, org: str) -> tuple[Store, Enqueuer]:
        if not self._walled:
            return self.store, self._enqueuer
        if org not in self._tenants:
            if len(self._tenants) >= MOST_TENANTS:
                self._tenants.clear()
            store = self._new_store(self.database.tenant(org, self.settings.server_statement_sec))
            self._tenants[org] = store, self._new_enqueuer(store)
        return self._tenants[org]

    def _new_store(self, database: Database) -> Store:
        store = Store(database)
        store.burials.max_size = self.settings.dlq_max_size
        return store

    def _new_enqueuer(self, store: Store) -> Enqueuer:
        parts = (self.registry, self.clock, self.ids, self.teller, self._patience, self.limits, self.vault)
        return Enqueuer(store, *parts)

    async def runs(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> RunBook:
        """The runs of an org: finding them, and reading the story of one, redacted."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        showing = Showing(self.vault, self.redactor)
        return RunBook(self.store_of(org), self.definitions, showing, self.run, caller)

    async def queue_book(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> QueueBook:
        """What waits in the queues for an org, and who works on them."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        return QueueBook(self.store_of(org), self.store, self.registry, caller)

    async def breaker_book(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> BreakerBook:
        """How breakers stand, and what of an org waits for them."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        return BreakerBook(self.store_of(org), self.breakers, self.registry, self.clock, caller)

    async def counts(self, org: str = DEFAULT_ORG) -> dict[str, int]:
        """How many runs there are in each state."""
        await self.open()
        return await self.store.runs.count_by_state(org)

    # Who may do what

    async def directory(self, *, org: str = DEFAULT_ORG, by: str | Principal = APPLICATION) -> Directory:
        """Organizations, members and keys. A mere name acts with all rights, a principal with its own."""
        await self.open()
        if not isinstance(by, Principal):
            by = program(Caller(checked_name("org", org), checked_caller(by)))
        if by.org != org:
            raise InvalidValueError(f"{by.name!r} stands in {by.org!r}, not in {org!r}; enter it first")
        return Directory(self._identity_kit(), by)

    async def sessions(self) -> Sessions:
        """Signing people in and out."""
        await self.open()
        hours, days = self.settings.session_idle_hours, self.settings.session_days
        return Sessions(self._identity_kit(), Span(lifetime=days * 86_400.0, idle=hours * 3600.0))

    async def credentials(self) -> Credentials:
        """Who it is that shows a key, or the token of a session."""
        return Credentials(self.store, await self.sessions())

    def _identity_kit(self) -> IdentityKit:
        parts = (self.store, self.ids, self.redactor, self.vault, self.passwords, self.entropy)
        return IdentityKit(*parts)

    # Failed work

    async def desk(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Desk:
        """Everything that somebody does with dead letters: triage, groups, replays, audit."""
        await self.open()
        kit = Kit(
            self.store_of(checked_name("org", org)),
            self.definitions,
            self.registry,
            self.ids,
            self.teller,
            self._patience,
            self.redactor,
            self.limits,
            self.clock,
            self.vault,
            self._burial(),
        )
        return Desk(kit, self.breakers, Caller(checked_name("org", org), checked_caller(by)))

    async def rotate_keys(self, *, by: str = APPLICATION) -> Rotated:
        """Seal everything anew that was not sealed with the newest encryption key."""
        await self.open()
        return await Rotation(self.store, self.vault, Caller(DEFAULT_ORG, checked_caller(by))).run()

    def template(self, template: Template) -> None:
        """Handle dead letters that match it by its policy, tags, owner and runbook; the first one wins."""
        require_kind("template", template, Template)
        self.templates.append(template)

    def redrive_function(self, name: str, function: Function) -> None:
        """Name a function: redrives so far → seconds until the next one, or None. Used as custom:name."""
        if not callable(function):
            raise InvalidValueError(f"a redrive policy must be a function, got {function!r}")
        self.redrive_functions[checked_name("the name of a redrive policy", name)] = function

    # Doing something once

    def idempotency(self, *, org: str = DEFAULT_ORG) -> Idempotency:
        """Executes a function once for each key, whoever asks for it (G6)."""
        keys = self.store_of(checked_name("org", org)).idempotency
        return Idempotency(replace(self._key_kit, keys=keys), org)

    def idempotent(
        self, key: Callable[..., str], *, org: str = DEFAULT_ORG, **options: Unpack[KeyOptions]
    ) -> Callable[[F], F]:
        """Makes a function do its work once for each key, which `key` computes from the same arguments."""
        org = checked_name("org", org)
        service, wait = lambda: self.idempotency(org=org), lambda work: self.sync.wait_for(work)
        return Idempotent(service, wait, key, options)

    # Operating

    async def pause(self, queue: str, *, by: str = APPLICATION, reason: str = "") -> None:
        """Claim nothing more from a queue; what is in flight is finished."""
        await (await self._controls(by)).pause(queue, reason)

    async def resume(self, queue: str, *, by: str = APPLICATION) -> None:
        await (await self._controls(by)).resume(queue)

    async def queues(self) -> list[QueueRow]:
        await self.open()
        return await self.store.holds.queues()

    async def workers(self) -> list[WorkerRow]:
        await self.open()
        return await self.store.holds.workers()

    async def force_breaker(
        self,
        name: str,
        state: BreakerState | str,
        *,
        reason: str,
        by: str = APPLICATION,
        seconds: float | None = None,
    ) -> None:
        """Open or close a breaker by hand, for so many seconds or until it is left to itself again."""
        await (await self._controls(by)).force_breaker(name, state, reason, seconds)

    async def release_breaker(self, name: str, *, by: str = APPLICATION) -> None:
        """Leave a forced breaker to itself again."""
        await (await self._controls(by)).release_breaker(name)

    async def _controls(self, by: str) -> Controls:
        await self.open()
        caller = Caller(DEFAULT_ORG, checked_caller(by))
        return Controls(self.store, self.registry, self.breakers, self.teller, self.redactor, caller)

    async def breaker_states(self) -> list[SharedBreaker]:
        await self.open()
        return await self.breakers.all()

    # Working

    def worker(self, **options: Any) -> Worker:
        """A worker: see WorkerOptions. `await worker.run()` works until `worker.stop()` is called."""
        known = frozenset(each.name for each in fields(WorkerOptions))
        refuse_unknown("a worker has no option", options, known)
        chosen = WorkerOptions(**{**self._worker_defaults(), **options})
        for queue in chosen.queues:
            self.registry.queue(queue)
        self._check_custom_policies()
        return self._make_worker(chosen, Threads(self.settings.worker_threads))

    def processor(self) -> Processor:
        """Redrives dead letters that are due (M3). Workers run one, unless the settings say otherwise."""
        parts = (self.store, self.breakers, self.clock, self.teller, self.ids, self._patience)
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

    def worker_in_test(self) -> Worker:
        """A worker that executes sync tasks directly, for redrive.testing."""
        return self._make_worker(WorkerOptions(**self._worker_defaults()), None)

    async def work(self, **options: Any) -> None:
        """Work until SIGTERM or SIGINT. The process is taken to be there for nothing else."""
        _collect_rarely()
        try:
            await self.worker(**options).run(signals=True)
        finally:
            await self.close()

    def run_worker(self, **options: Any) -> None:
        """Work until SIGTERM or SIGINT; for programs that have no event loop."""
        asyncio.run(self.work(**options))

    # Opening and closing

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
        self._key_kit.keeper.stop()
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def sync(self) -> Blocking:
        """The same application for programs without an event loop."""
        if self._sync is None:
            from redrive.blocking import Blocking  # it imports this module

            self._sync = Blocking(self)
        return self._sync

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
        herald = Herald(self.teller, self.clock, self.waiters.finished)
        recorder = Recorder(self.store, self._patience, herald.noticed)
        executor = Executor(
            store=self.store,
            clock=self.clock,
            ids=self.ids,
            registry=self.registry,
            definitions=self.definitions,
            recorder=recorder,
            invoker=Invoker(threads, self.teller),
            breakers=self.breakers,
            teller=self.teller,
            judge=Judge(self.clock, self.random, self.ids, recorder, herald, self._burial()),
            limits=self.limits,
            lease_seconds=options.lease_seconds,
            org_concurrency=self.settings.org_concurrency,
            code_version=self.settings.code_version or "unversioned",
            vault=self.vault,
        )
        return Worker(
            executor,
            Gate(self.store, self.breakers),
            self._patience,
            options,
            self.open,
            OperationDriver(self.store, self.breakers, self.teller),
            self.processor(),
        )

    def _check_custom_policies(self) -> None:
        """A name that nobody knows would never be redriven."""
        redriven: list[Task | Template] = [*self.registry.tasks.values(), *self.templates]
        for each in redriven:
            name = str(each.redrive).removeprefix(CUSTOM_PREFIX)
            if str(each.redrive).startswith(CUSTOM_PREFIX) and name not in self.redrive_functions:
                raise InvalidValueError(
                    f"{each.name!r} is to be redriven by {each.redrive!r}, which is not known here: name it "
                    f"with app.redrive_function({name!r}, function)"
                )

    def _burial(self) -> Burial:
        settings = self.settings
        return Burial(
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


def name_of(work: str | Task | Definition) -> str:
    if isinstance(work, Task):
        return work.name
    if isinstance(work, Definition):
        return work.workflow
    if not isinstance(work, str):
        raise InvalidValueError(f"{work!r} is neither a task nor a workflow; is @app.task missing?")
    return work


def _noted(prepared: Iterable[Prepared], ids: set[str]) -> Iterator[Prepared]:
    """The same, while their ids are gathered."""
    for each in prepared:
        ids.add(each[0].id)
        yield each


def _collect_rarely() -> None:
    """Every piece of work makes a dozen objects and drops them; looking for cycles among them takes a tenth
    of the time."""
    gc.collect()
    gc.freeze()
    threshold, *others = gc.get_threshold()
    if 0 < threshold < GARBAGE:
        gc.set_threshold(GARBAGE, *others)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
