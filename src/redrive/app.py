"""The application object: delegation only. What it consists of is put together in `redrive.wiring`."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from redrive.engine.breaker_queries import BreakerControls, BreakerQueries
from redrive.engine.breakers import BreakerSettings, Probe, SharedBreaker
from redrive.engine.definition import Definition, StepDefinition
from redrive.engine.encryption import KeyRotation, Rotated
from redrive.engine.enqueue import DEFAULT_ORG, Prepared, StartOptions
from redrive.engine.event_bus import Listener
from redrive.engine.handle import RunHandle
from redrive.engine.invoker import Threads
from redrive.engine.payload import Read
from redrive.engine.queue_queries import QueueControls, QueueQueries
from redrive.engine.run_queries import RunQueries
from redrive.engine.run_view import RedactedView
from redrive.engine.task import (
    AnyTask,
    TakesNothing,
    TakesOne,
    Task,
    TaskDecorator,
    TaskOptions,
    checked_name,
    reject_unknown,
)
from redrive.engine.worker import Worker
from redrive.engine.worker_parts import WorkerOptions
from redrive.errors import InvalidValueError
from redrive.failures.overview import OverviewQueries
from redrive.failures.service import Failures
from redrive.idempotency.decorator import Idempotent, KeyOptions
from redrive.idempotency.service import Idempotency
from redrive.identity.credentials import CredentialLookup
from redrive.identity.directory import Directory
from redrive.identity.sessions import UserSessions
from redrive.identity.sign_in import SessionLimits
from redrive.model.breaker import BreakerState
from redrive.model.caller import APPLICATION, Caller, checked_caller
from redrive.policy.access import Principal, program
from redrive.policy.automatic_redrive import Function
from redrive.policy.bounds import require_kind
from redrive.policy.breaker_policy import BreakerPolicy, Ramp
from redrive.policy.template import Template
from redrive.store.joined import JoinedSession, joined_session
from redrive.store.limits import QueueRow, WorkerRow
from redrive.wiring import Wiring

if TYPE_CHECKING:
    from redrive.blocking import Blocking

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

GARBAGE = 10_000
"""Objects that a worker process makes between two collections of garbage."""


class Redrive(Wiring):
    """Tasks, workflows and the store they run on.

    app = Redrive("sqlite:///work.db")          or postgresql://user@host/database

    @app.task(retry=..., timeout=30)
    async def charge(order: Order) -> Receipt: ...

    run = await app.start(charge, order, key="order-7")
    await run.result()
    """

    _sync: Blocking | None = None

    # Saying what there is

    @property
    def task(self) -> TaskDecorator:
        """Register a function, sync or async: `@app.task` or `@app.task(timeout=30)`; see TaskOptions."""
        return TaskDecorator(self._register)

    def _register(self, function: Callable[..., Any], options: TaskOptions) -> AnyTask:
        defaults = {"retry": self.settings.retry_policy, "timeout": self.settings.task_timeout}
        task = Task.of(function, {**defaults, **options}, self)
        self.registry.add_task(task)
        return task

    def workflow(self, name: str, steps: Sequence[AnyTask | StepDefinition]) -> Definition:
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
        self._breaker_settings[name] = BreakerSettings(policy, probe, Ramp() if ramp is None else ramp)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every event of the engine (redrive.model.event). It must be quick."""
        self.event_bus.listen(listener)

    # Starting and looking up

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
        """Start a run: see StartOptions. With `connection`, as part of your own PostgreSQL transaction."""
        new, _ = prepared = self._enqueuer.prepare(name_of(work), payload, options)
        if connection is not None:
            return (await self._start_within(connection, [prepared]))[0]
        await self.open()
        run_id = await self._tenant(new.org).enqueuer.start(prepared)
        await self._after_start()
        handle = self._handle(run_id, new.org, self.registry.result_reader(new.workflow))
        handle.existed = run_id != new.id
        return handle

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
        """Start many runs, all or none of them; `keys` are their idempotency keys."""
        prepared = self._enqueuer.prepare_many(name_of(work), payloads, keys, options)
        if connection is not None:
            return await self._start_within(connection, list(prepared))
        await self.open()
        org, made = options.get("org", DEFAULT_ORG), set[str]()
        ids = await self._tenant(org).enqueuer.start_many(_noted(prepared, made))
        await self._after_start()
        read = self.registry.result_reader(name_of(work))
        handles = [self._handle(run_id, org, read) for run_id in ids]
        for handle in handles:
            handle.existed = handle.id not in made
        return handles

    def prepare(
        self,
        work: object,
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

    async def start_within(
        self, session: JoinedSession, prepared: Sequence[Prepared]
    ) -> list[RunHandle[Any]]:
        ids = await self._enqueuer.start_within(session, prepared)
        return [
            self._handle(run_id, new.org, self.registry.result_reader(new.workflow))
            for run_id, (new, _) in zip(ids, prepared, strict=True)
        ]

    async def _start_within(self, connection: object, prepared: Sequence[Prepared]) -> list[RunHandle[Any]]:
        session = joined_session(connection, self.database)
        await self.define(prepared)
        return await self.start_within(session, prepared)

    async def _after_start(self) -> None:
        if self.after_start is not None:
            await self.after_start()

    @overload
    def run(self, run_id: str, org: str = DEFAULT_ORG) -> RunHandle[Any]: ...

    @overload
    def run(self, run_id: str, org: str = DEFAULT_ORG, *, task: Task[..., R]) -> RunHandle[R]: ...

    def run(self, run_id: str, org: str = DEFAULT_ORG, *, task: AnyTask | None = None) -> RunHandle[Any]:
        """A handle on a run that was started before. Its result is JSON, or what `task` returns."""
        return self._handle(run_id, org, None if task is None else task.signature.result)

    def _handle(self, run_id: str, org: str, read: Read | None) -> RunHandle[Any]:
        parts = (self.store_of(org), self.definitions, self.clock, self.waiters, self.event_bus, self.open)
        return RunHandle(run_id, org, *parts, self.encryption, read)

    async def runs(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> RunQueries:
        """The runs of an org: finding them, and reading the story of one, redacted."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        showing = RedactedView(self.encryption, self.redactor)
        return RunQueries(self.store_of(org), self.definitions, showing, self.run, caller)

    async def queue_book(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> QueueQueries:
        """What waits in the queues for an org, and who works on them."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        return QueueQueries(self.store_of(org), self.store, self.registry, caller)

    async def breaker_book(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> BreakerQueries:
        """How breakers stand, and what of an org waits for them."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        return BreakerQueries(self.store_of(org), self.breakers, self.registry, self.clock, caller)

    async def overview(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> OverviewQueries:
        """What needs somebody, what heals by itself, and what has come and gone."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        return OverviewQueries(self.store_of(org), self.clock, caller)

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
        return Directory(self._identity_services(), by)

    async def sessions(self) -> UserSessions:
        """Signing people in and out."""
        await self.open()
        hours, days = self.settings.session_idle_hours, self.settings.session_days
        return UserSessions(self._identity_services(), SessionLimits(days * 86_400.0, hours * 3600.0))

    async def credentials(self) -> CredentialLookup:
        """Who it is that shows a key, or the token of a session."""
        return CredentialLookup(self.store, await self.sessions())

    # Failed work

    async def desk(self, *, org: str = DEFAULT_ORG, by: str = APPLICATION) -> Failures:
        """Everything that somebody does with dead letters: triage, groups, replays, audit."""
        await self.open()
        caller = Caller(checked_name("org", org), checked_caller(by))
        return Failures(self._failure_parts(caller))

    async def rotate_keys(self, *, by: str = APPLICATION) -> Rotated:
        """Seal everything anew that was not sealed with the newest encryption key."""
        await self.open()
        return await KeyRotation(self.store, self.encryption, Caller(DEFAULT_ORG, checked_caller(by))).run()

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
        """Executes a function once for each key, whoever asks for it."""
        keys = self.store_of(checked_name("org", org)).idempotency
        return Idempotency(self._key_services, keys, org)

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
        await (await self._queue_controls(by)).pause(queue, reason)

    async def resume(self, queue: str, *, by: str = APPLICATION) -> None:
        await (await self._queue_controls(by)).resume(queue)

    async def queues(self) -> list[QueueRow]:
        await self.open()
        return await self.store.limits.queues()

    async def workers(self) -> list[WorkerRow]:
        await self.open()
        return await self.store.limits.workers()

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
        await (await self._breaker_controls(by)).force(name, state, reason, seconds)

    async def release_breaker(self, name: str, *, by: str = APPLICATION) -> None:
        """Leave a forced breaker to itself again."""
        await (await self._breaker_controls(by)).release(name)

    async def _queue_controls(self, by: str) -> QueueControls:
        await self.open()
        caller = Caller(DEFAULT_ORG, checked_caller(by))
        return QueueControls(self.store, self.registry, self.event_bus, self.redactor, caller)

    async def _breaker_controls(self, by: str) -> BreakerControls:
        await self.open()
        caller = Caller(DEFAULT_ORG, checked_caller(by))
        return BreakerControls(self.breakers, self.redactor, caller)

    async def breaker_states(self) -> list[SharedBreaker]:
        await self.open()
        return await self.breakers.all()

    # Working

    def worker(self, **options: Any) -> Worker:
        """A worker: see WorkerOptions. `await worker.run()` works until `worker.stop()` is called."""
        known = frozenset(each.name for each in fields(WorkerOptions))
        reject_unknown("a worker has no option", options, known)
        chosen = WorkerOptions(**{**self._worker_defaults(), **options})
        for queue in chosen.queues:
            self.registry.queue(queue)
        self._check_custom_policies()
        return self._make_worker(chosen, Threads(self.settings.worker_threads))

    def worker_in_test(self) -> Worker:
        """A worker that executes sync tasks directly, for redrive.testing."""
        return self._make_worker(WorkerOptions(**self._worker_defaults()), None)

    async def work(self, **options: Any) -> None:
        """Work until SIGTERM or SIGINT. The process is taken to be there for nothing else."""
        worker = self.worker(**options)
        collect_rarely()
        try:
            await worker.run(signals=True)
        finally:
            await self.close()

    def run_worker(self, **options: Any) -> None:
        """Work until SIGTERM or SIGINT; for programs that have no event loop."""
        asyncio.run(self.work(**options))

    @property
    def sync(self) -> Blocking:
        """The same application for programs without an event loop."""
        if self._sync is None:
            from redrive.blocking import Blocking  # it imports this module

            self._sync = Blocking(self)
        return self._sync


def name_of(work: object) -> str:
    """The name of a task or a workflow."""
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


def collect_rarely() -> None:
    """For a process that is there for nothing else. Every piece of work makes a dozen objects and drops them;
    looking for cycles among them takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    threshold, *others = gc.get_threshold()
    if 0 < threshold < GARBAGE:
        gc.set_threshold(GARBAGE, *others)
