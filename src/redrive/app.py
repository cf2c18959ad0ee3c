"""The application: the entry point for programs. `redrive.wiring` builds its parts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from redrive.blocking import Blocking
from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.engine.breakers import Breakers
from redrive.engine.definition import Definition, StepDefinition
from redrive.engine.encryption import Encryption
from redrive.engine.enqueue import DEFAULT_ORG, Prepared, StartOptions
from redrive.engine.event_bus import Listener
from redrive.engine.handle import RunHandle
from redrive.engine.ids import BlockRandom
from redrive.engine.invoker import Threads
from redrive.engine.queues import Queues, Workers
from redrive.engine.run_view import RedactedView
from redrive.engine.runs import Runs
from redrive.engine.shared_breakers import BreakerSettings, Probe
from redrive.engine.task import (
    AnyTask,
    TakesNothing,
    TakesOne,
    Task,
    TaskDecorator,
    TaskOptions,
    checked_name,
    name_of,
    reject_unknown,
)
from redrive.engine.worker import Worker
from redrive.engine.worker_parts import WorkerOptions
from redrive.errors import InvalidValueError
from redrive.events.service import Events
from redrive.events.stream import Connect, Stream, StreamOptions
from redrive.events.streams import Streams
from redrive.failures.service import Failures
from redrive.idempotency.decorator import Idempotent
from redrive.identity.members import Members
from redrive.model.caller import APPLICATION, Caller, checked_caller
from redrive.observe.log import LogListener
from redrive.policy.access import Principal, program
from redrive.policy.bounds import require_function, require_kind, require_list
from redrive.policy.breaker_policy import BreakerPolicy, Ramp
from redrive.policy.codec import DEFAULT_LIMITS, JsonLimits, decode_stored
from redrive.policy.monitor import DEFAULT_THRESHOLDS, Thresholds
from redrive.policy.redact import DEFAULT_REDACTOR, Redactor
from redrive.policy.template import Template
from redrive.renamed import NamesRenamed
from redrive.settings import Settings
from redrive.store.joined import joined_session
from redrive.wiring import Declarations, Parts, database_at

A = TypeVar("A")
R = TypeVar("R")

_WORKER_OPTIONS = frozenset(field.name for field in fields(WorkerOptions))
GARBAGE_THRESHOLD = 10_000
"""Allocations between two garbage collections in a worker process."""


class Redrive(NamesRenamed):
    """An application: its tasks and workflows, and the database they run on.

    app = Redrive("sqlite:///work.db")          or postgresql://user@host/database

    @app.task(retry=..., timeout=30)
    async def charge(order: Order) -> Receipt: ...

    run = await app.start(charge, order, key="order-7")
    await run.result()

    Methods that read or change stored work take two options: `org`, the organization that owns the work, and
    `by`, the name of the actor in audit entries.
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
        limits: JsonLimits = DEFAULT_LIMITS,
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        log: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        random: Random | None = None,
    ) -> None:
        settings = Settings.checked(settings)
        require_list("queues", queues, "names")
        for name, value, kind in (
            ("pooler", pooler, bool),
            ("durable", durable, bool),
            ("redactor", redactor, Redactor),
            ("limits", limits, JsonLimits),
            ("thresholds", thresholds, Thresholds),
            ("log", log, bool),
        ):
            require_kind(name, value, kind)
        declarations = self._declare(
            settings=settings,
            redactor=redactor,
            limits=limits,
            thresholds=thresholds,
            encryption=Encryption(settings.read_encryption_keys()),
        )
        declarations.registry.queues |= {checked_name("queue", queue) for queue in queues}
        if log:
            declarations.event_bus.listen(LogListener(clock))
        database = database_at(url or settings.database_url, settings, clock, pooler, durable)
        self._parts = Parts(declarations, database, clock, BlockRandom() if random is None else random)
        self._sync: Blocking | None = None

    _declare: Callable[..., Declarations] = Declarations

    # Registration

    @property
    def task(self) -> TaskDecorator:
        """Register a sync or async function: `@app.task` or `@app.task(timeout=30)`. See TaskOptions."""
        return TaskDecorator(self._register)

    def _register(self, function: Callable[..., Any], options: TaskOptions) -> AnyTask:
        settings = self._parts.settings
        defaults = {"retry": settings.retry_policy, "timeout": settings.task_timeout}
        task = Task.of(function, {**defaults, **options}, self)
        self._parts.registry.add_task(task)
        if callable(redrive := options.get("redrive")):
            self._parts.declared.add_redrive_function(task.name, redrive)
        return task

    def workflow(
        self, name: str, steps: Sequence[AnyTask | StepDefinition], *, aliases: Sequence[str] = ()
    ) -> Definition:
        """Register a workflow: a named, ordered list of steps.

        The first step receives the run's payload, each later step the previous step's result. `aliases` are
        its former names: workers also execute runs that were started under one of them.
        """
        return self._parts.registry.add_workflow(name, steps, aliases)

    def breaker(
        self,
        name: str,
        policy: BreakerPolicy | None = None,
        *,
        probe: Probe | None = None,
        ramp: Ramp | None = None,
    ) -> None:
        """Configure the breaker of a dependency. `probe` is a function that checks whether it works again."""
        checked_name("breaker", name)
        policy = self._parts.settings.breaker_policy if policy is None else policy
        ramp = Ramp() if ramp is None else ramp
        require_kind("policy", policy, BreakerPolicy)
        require_kind("ramp", ramp, Ramp)
        if probe is not None:
            require_function("probe", probe)
        settings = BreakerSettings(policy, probe, ramp)
        self._parts.declared.breakers[name] = settings

    def stream(self, name: str, url: str | Connect, **options: Unpack[StreamOptions]) -> Stream:
        """Declare a Redis stream whose entries are events; see StreamOptions.

        `url` is the address of Redis, or a function that returns a client of `redis.asyncio`.
        """
        streams = self._parts.declared.streams
        if name in streams:
            raise InvalidValueError(f"the stream {name!r} already exists; use another name")
        stream = Stream(self._register, self._store_entry, name, url, options)
        streams[stream.name] = stream
        return stream

    async def _store_entry(self, stream: Stream, payload: dict[str, Any]) -> dict[str, Any]:
        return await self._parts.entry_ingest(stream).store_again(payload)

    def template(self, template: Template) -> None:
        """Apply the template's policy, tags, owner and runbook to matching dead letters.

        If several templates match, the first one registered applies.
        """
        require_kind("template", template, Template)
        declared = self._parts.declared
        if callable(template.redrive):
            declared.add_redrive_function(template.function_name, template.redrive)
        declared.templates.append(template)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every event of the engine (redrive.model.event). It must return quickly."""
        require_function("listener", listener)
        self._parts.event_bus.listen(listener)

    # Starting and finding runs

    @overload
    async def start(
        self,
        work: TakesOne[A, R],
        payload: A,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle[R]: ...

    @overload
    async def start(
        self,
        work: TakesNothing[R],
        payload: None = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle[R]: ...

    @overload
    async def start(
        self,
        work: str | Definition,
        payload: object = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle[Any]: ...

    async def start(
        self,
        work: object,
        payload: object = None,
        *,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle[Any]:
        """Start a run; see StartOptions. With `connection`, store it in your own PostgreSQL transaction."""
        parts = self._parts
        new, _ = prepared = parts.enqueuer.prepare(name_of(work), payload, options)
        if connection is not None:
            return (await self._start_within(connection, [prepared]))[0]
        await parts.open()
        tenant = parts.tenant(new.org)
        run_id = await tenant.enqueuer.start(prepared)
        if parts.after_start is not None:
            await parts.after_start()
        read = parts.registry.result_reader(new.workflow)
        return RunHandle(run_id, tenant.runs, read, existed=run_id != new.id)

    @overload
    async def start_many(
        self,
        work: TakesOne[A, R],
        payloads: Iterable[A],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[RunHandle[R]]: ...

    @overload
    async def start_many(
        self,
        work: TakesNothing[R],
        payloads: Iterable[None],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[RunHandle[R]]: ...

    @overload
    async def start_many(
        self,
        work: str | Definition,
        payloads: Iterable[object],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[RunHandle[Any]]: ...

    async def start_many(
        self,
        work: object,
        payloads: Iterable[object],
        *,
        keys: Iterable[str] | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> list[RunHandle[Any]]:
        """Start many runs: all of them, or none. `keys` holds one idempotency key for each."""
        parts, name = self._parts, name_of(work)
        prepared = parts.enqueuer.prepare_many(name, payloads, keys, options)
        if connection is not None:
            return await self._start_within(connection, list(prepared))
        await parts.open()
        tenant, new_ids = parts.tenant(options.get("org", DEFAULT_ORG)), set[str]()
        ids = await tenant.enqueuer.start_many(_collecting_ids(prepared, new_ids))
        if parts.after_start is not None:
            await parts.after_start()
        read = parts.registry.result_reader(name)
        return [RunHandle(run_id, tenant.runs, read, existed=run_id not in new_ids) for run_id in ids]

    async def _start_within(self, connection: object, prepared: Sequence[Prepared]) -> list[RunHandle[Any]]:
        session = joined_session(connection, self._parts.database)
        await self._parts.enqueuer.define(prepared)
        return await self._parts.start_within(session, prepared)

    @overload
    def run(self, run_id: str, org: str = DEFAULT_ORG) -> RunHandle[Any]: ...

    @overload
    def run(self, run_id: str, org: str = DEFAULT_ORG, *, task: Task[..., R]) -> RunHandle[R]: ...

    def run(self, run_id: str, org: str = DEFAULT_ORG, *, task: AnyTask | None = None) -> RunHandle[Any]:
        """Return a handle for an existing run. With `task`, its result has the task's return type."""
        if task is not None:
            require_kind("task", task, Task)
        read = decode_stored if task is None else task.signature.result
        return RunHandle(run_id, self._parts.tenant(org).runs, read)

    # Reading and acting

    def runs(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Runs:
        """The runs of an organization: list and cancel them, or view one with its history, redacted."""
        parts, caller = self._parts, _caller(org, by)
        view = RedactedView(parts.encryption, parts.redactor)
        return Runs(parts.store_of(org), parts.definitions, view, self.run, caller)

    def failures(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Failures:
        """The dead letters of an organization: list, view, replay, resolve, ignore and archive them.

        Also their groups, bulk replays and audit.
        """
        return Failures(self._parts.failure_parts(_caller(org, by)))

    def events(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Events:
        """The events of an organization: record and view them, and see how their projectors have fared."""
        return Events(self._parts.event_parts(_caller(org, by)))

    def streams(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Streams:
        """The streams of an organization: see how far they have been read, pause and resume them."""
        return Streams(self._parts.event_parts(_caller(org, by)))

    def queues(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Queues:
        """The queues: see how much work each one holds, pause and resume them."""
        parts, caller = self._parts, _caller(org, by)
        shared = (parts.store, parts.registry, parts.event_bus, parts.redactor)
        return Queues(parts.store_of(org), *shared, caller)

    def workers(self, *, org: str = DEFAULT_ORG) -> Workers:
        """The workers of the installation."""
        return Workers(self._parts.store, _caller(org, APPLICATION))

    def breakers(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Breakers:
        """The breakers: see their states and the work on hold, open and close them manually."""
        parts, caller = self._parts, _caller(org, by)
        shared = (parts.breakers, parts.registry, parts.clock, parts.redactor)
        return Breakers(parts.store_of(org), *shared, caller)

    def members(self, *, org: str = DEFAULT_ORG, by: str | Principal = APPLICATION) -> Members:
        """The members of an organization, and its API keys, accounts and sessions; also organizations.

        A plain name has full rights; a `Principal` keeps its own.
        """
        principal = by if isinstance(by, Principal) else program(_caller(org, by))
        if principal.org != org:
            raise InvalidValueError(
                f"{principal.name!r} acts for the organization {principal.org!r}, not for {org!r}; "
                f"switch to {org!r} first"
            )
        return Members(self._parts.identity_services(), principal)

    @property
    def idempotent(self) -> Idempotent:
        """Execute a function once per key: `@app.idempotent(key=...)` or `await app.idempotent.run(...)`."""
        return Idempotent(lambda org: self._parts.idempotency(org), lambda work: self.sync.wait_for(work))

    # Workers

    def worker(self, **options: Any) -> Worker:
        """Create a worker; see WorkerOptions. `await worker.run()` works until `worker.stop()` is called."""
        parts = self._parts
        reject_unknown("a worker has no option", options, _WORKER_OPTIONS)
        worker_options = WorkerOptions(**{**parts.declared.worker_defaults, **options})
        for queue in worker_options.queues:
            parts.registry.queue(queue)
        parts.declared.check_redrive_functions()
        if parts.waiters.help is not None:
            raise InvalidValueError(
                "in_memory has no workers, because time passes only when the test says so; call "
                "`await test.drain()` or `await test.advance(seconds)` instead"
            )
        return parts.worker(worker_options, Threads(parts.settings.worker_threads))

    async def work(self, **options: Any) -> None:
        """Run a worker until SIGTERM or SIGINT, in a process that does nothing else."""
        worker = self.worker(**options)
        collect_rarely()
        try:
            await worker.run(signals=True)
        finally:
            await self.close()

    def run_worker(self, **options: Any) -> None:
        """Run a worker until SIGTERM or SIGINT, in a program without an event loop."""
        asyncio.run(self.work(**options))

    async def open(self) -> None:
        """Create or upgrade the tables. Methods that need the tables do this automatically."""
        await self._parts.open()

    async def close(self) -> None:
        """Close all connections. The next call reopens them."""
        await self._parts.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def sync(self) -> Blocking:
        """The blocking version of this application, for programs without an event loop."""
        if self._sync is None:
            self._sync = Blocking(self)
        return self._sync


def _caller(org: str, by: str) -> Caller:
    return Caller(checked_name("org", org), checked_caller(by))


def _collecting_ids(prepared: Iterable[Prepared], ids: set[str]) -> Iterator[Prepared]:
    """Pass the prepared runs on and add their ids to `ids`."""
    for item in prepared:
        ids.add(item[0].id)
        yield item


def collect_rarely() -> None:
    """Collect garbage less often, in a process that only runs a worker.

    Every step allocates and drops about a dozen objects; searching them for cycles takes a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    threshold, *rest = gc.get_threshold()
    if 0 < threshold < GARBAGE_THRESHOLD:
        gc.set_threshold(GARBAGE_THRESHOLD, *rest)
