"""Starting runs: every run is stored durably before a worker executes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypedDict

from redrive.calls.running_step import require_lease
from redrive.clock import Clock
from redrive.duration import Seconds
from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.engine.payload import json_and_text
from redrive.engine.registry import Registry
from redrive.engine.signature import Signature
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.task import checked_name, reject_unknown
from redrive.errors import InvalidValueError, StoreUnavailableError
from redrive.forking import ResetInChild, join_forks
from redrive.model.event import RunQueued
from redrive.model.run import AfterFailure, NewRun
from redrive.model.step import is_key_of_further_run
from redrive.policy.bounds import (
    MAX_DELAY_SECONDS,
    require,
    require_kind,
    require_list,
    require_seconds,
    require_whole,
)
from redrive.policy.codec import DEFAULT_LIMITS, JsonLimits, encode
from redrive.policy.idempotency_key import request_hash
from redrive.store.joined import JoinedSession
from redrive.store.runs import DefinitionRow
from redrive.store.store import Store

DEFAULT_ORG = "default"
MAX_KEY_LENGTH = 255
MAX_START_DELAY_SECONDS = 10 * MAX_DELAY_SECONDS
MAX_PRIORITY = 100
MAX_TRIES = 4
MAX_TAGS = 50
RESERVED_PREFIX = "dlq:"
"""The key prefix reserved for failed tasks imported from other systems."""
PIECE_SIZE = 250
"""Runs per INSERT; the next ones are prepared while the database executes it."""


class StartOptions(TypedDict, total=False):
    """Options for starting a run.

    org             the organization that owns the run; default: "default"
    key             idempotency key: the same key returns the same run; with another payload, ConflictError
    priority        from -100 to 100, higher first; default: 0
    delay           seconds or a timedelta until the run is due
    at              when the run is due: a datetime with a time zone, or seconds since 1970
    queue           the queue; default: the queue of the first task
    correlation_id  an id that relates the run to other work; default: the id of the run
    tags            words to find the run by
    metadata        a mapping with further information, stored as JSON
    owner           the name of the user who may retry the run with only the permission to read
    order_key       runs of the org with the same key are executed one at a time, in the order of their starts
    after_failure   if this run becomes a dead letter, the later runs of its order key "wait" until that is
                    closed, or "proceed"; default: "wait"
    """

    org: str
    key: str | None
    priority: int
    delay: Seconds
    at: datetime | float | None
    queue: str | None
    correlation_id: str | None
    tags: Sequence[str]
    metadata: Mapping[str, Any] | None
    owner: str | None
    order_key: str | None
    after_failure: Literal["wait", "proceed"]


Prepared = tuple[NewRun, DefinitionRow]
"""A run to store, and its definition."""


class _Common(NamedTuple):
    """The checked options of runs started together. `signature` is the first task's, if it is known."""

    definition: DefinitionRow
    signature: Signature | None
    org: str
    queue: str
    priority: int
    delay: float
    at: float | None
    correlation_id: str | None
    tags: str | None
    metadata: str | None
    owner: str | None
    order_key: str | None
    after_failure: AfterFailure


class Pieces:
    """Runs of one definition in pieces, prepared as needed. Iterating again yields the same runs."""

    def __init__(self, prepared: Iterable[Prepared]) -> None:
        self._source = iter(prepared)
        self.prepared: list[list[NewRun]] = []
        self.definitions: list[DefinitionRow] = []

    def __iter__(self) -> Iterator[list[NewRun]]:
        yield from self.prepared
        while piece := list(islice(self._source, PIECE_SIZE)):
            self.definitions = self.definitions or _definitions(piece)
            self.prepared.append(_new(piece))
            yield self.prepared[-1]


class _Waiting(NamedTuple):
    """A caller that waits for its run to be stored. The future receives the id of the run."""

    prepared: Prepared
    run_id: asyncio.Future[str]


class Enqueuer(ResetInChild):
    """Stores new runs. Callers that arrive during a write share the next write."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        ids: Ids,
        event_bus: EventBus,
        retrier: StoreRetrier,
        limits: JsonLimits = DEFAULT_LIMITS,
        encryption: Encryption = NO_ENCRYPTION,
    ) -> None:
        self._store = store
        self._encryption = encryption
        self._registry = registry
        self._clock = clock
        self._ids = ids
        self._event_bus = event_bus
        self._retrier = retrier
        self._limits = limits
        self._waiting: list[_Waiting] = []
        self._is_writing = False
        self._writer: asyncio.Task[None] | None = None
        join_forks(self)

    def prepare(self, workflow: str, payload: object, options: StartOptions) -> Prepared:
        """Validate the payload and options and return the run to store."""
        return self._new_run(self._common(workflow, options), payload, options.get("key"))

    def prepare_many(
        self, workflow: str, payloads: Iterable[object], keys: Iterable[str] | None, options: StartOptions
    ) -> Iterator[Prepared]:
        """Validate the options and return the runs to store, each prepared when it is needed."""
        if options.get("key") is not None:
            raise InvalidValueError(
                "many runs cannot share one key; pass keys=[...] with one key for each run"
            )
        require_list("payloads", payloads, "payloads")
        common = self._common(workflow, options)
        if keys is None:
            return (self._new_run(common, payload, None) for payload in payloads)
        require_list("keys", keys, "keys")
        payload_list, key_list = list(payloads), list(keys)
        if len(payload_list) != len(key_list):
            raise InvalidValueError(
                f"there are {len(payload_list)} payloads but {len(key_list)} keys; pass one key per payload"
            )
        pairs = zip(payload_list, key_list, strict=True)
        return (self._new_run(common, payload, key) for payload, key in pairs)

    def _common(self, workflow: str, options: StartOptions) -> _Common:
        require_lease()
        reject_unknown("the start of a run has no option", options, StartOptions.__optional_keys__)
        definition = self._registry.workflow(workflow)
        first = self._registry.task(definition.steps[0].task)
        org = checked_name("org", options.get("org", DEFAULT_ORG))
        queue = options.get("queue")
        priority = options.get("priority", 0)
        require_whole("priority", priority, -MAX_PRIORITY, MAX_PRIORITY)
        delay = require_seconds("delay", options.get("delay", 0.0), 0.0, MAX_START_DELAY_SECONDS)
        return _Common(
            definition=DefinitionRow(definition.digest, definition.workflow, definition.body),
            signature=None if first is None else first.signature,
            org=org,
            queue=definition.steps[0].queue if queue is None else self._registry.queue(queue),
            priority=priority,
            delay=float(delay),
            at=self._due_time(options),
            correlation_id=_checked_text("correlation_id", options.get("correlation_id")),
            tags=_checked_tags(options.get("tags", ())),
            metadata=self._metadata(options.get("metadata")),
            owner=_checked_text("owner", options.get("owner")),
            order_key=_checked_text("order_key", options.get("order_key")),
            after_failure=_checked_after_failure(options),
        )

    def _new_run(self, common: _Common, payload: object, key: str | None) -> Prepared:
        value, text = json_and_text(payload, limits=self._limits)
        if common.signature is not None:
            common.signature.check(value)
        key = _checked_key(key)
        identifier = self._ids.new() if common.order_key is None else self._ids.new_in_order()
        workflow = common.definition.workflow
        run = NewRun(
            id=identifier,
            org=common.org,
            workflow=workflow,
            definition=common.definition.digest,
            queue=common.queue,
            priority=common.priority,
            delay=common.delay,
            at=common.at,
            input=self._encryption.encrypt(text),
            idempotency_key=key,
            request_hash=None if key is None else request_hash([workflow, value], limits=self._limits),
            correlation_id=common.correlation_id or identifier,
            tags=common.tags,
            metadata=common.metadata,
            owner=common.owner,
            order_key=common.order_key,
            after_failure=common.after_failure,
        )
        return run, common.definition

    def after_fork_in_child(self) -> None:
        """Forget the writes of the parent."""
        self._is_writing, self._waiting, self._writer = False, [], None

    async def start(self, prepared: Prepared) -> str:
        """Store a run. Return its id, or the id of the existing run with the same idempotency key."""
        if self._is_writing or (self._writer is not None and not self._writer.done()):
            return await self._share(prepared)
        self._is_writing = True
        try:
            [run_id] = await self._store_runs([prepared])
            return run_id
        finally:
            self._is_writing = False
            if self._waiting:
                self._writer = asyncio.create_task(self._write_shared())

    async def _share(self, prepared: Prepared) -> str:
        """Wait for the next write, which stores all runs that arrive during the current one."""
        run_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(prepared, run_id))
        return await run_id  # cancelling the caller cancels this future, but the run is stored anyway

    async def start_many(self, prepared: Iterable[Prepared]) -> list[str]:
        """Store runs of one workflow: all of them, or none."""
        pieces = Pieces(prepared)
        write = partial(self._write_pieces, pieces)
        ids = await self._retrier.run("enqueue", write, errors=StoreUnavailableError, tries=MAX_TRIES)
        await self.announce([run for piece in pieces.prepared for run in piece], ids)
        return ids

    async def _write_pieces(self, pieces: Pieces) -> list[str]:
        first = next(iter(pieces), [])
        if len(first) < PIECE_SIZE:
            return await self._store.runs.enqueue(first, pieces.definitions) if first else []
        return await self._store.runs.enqueue_pieces(pieces, pieces.definitions)

    async def define(self, runs: Sequence[Prepared]) -> None:
        """Store the definitions of the runs, before the runs are stored in the user's transaction."""
        await self._store.runs.define(_definitions(runs))

    async def define_workflow(self, name: str) -> None:
        """Store the definition of a workflow, before runs of it are stored in a transaction."""
        definition = self._registry.workflow(name)
        await self._store.runs.define(
            [DefinitionRow(definition.digest, definition.workflow, definition.body)]
        )

    async def start_within(self, session: JoinedSession, runs: Sequence[Prepared]) -> list[str]:
        """Store runs in the user's own transaction: they exist if and only if it commits."""
        new = _new(runs)
        ids = await self._store.runs.enqueue_within(session, new)
        await session.hint(sorted({run.queue for run in new}))
        return ids

    async def _write_shared(self) -> None:
        while self._waiting:
            await asyncio.sleep(
                0
            )  # callers that just got their ids may start another run and share the write
            batch, self._waiting = self._waiting, []
            await self._write_batch(batch)

    async def _write_batch(self, batch: Sequence[_Waiting]) -> None:
        """Store the runs of several callers in one write; after an error, store each run separately."""
        try:
            ids = await self._store_runs([waiting.prepared for waiting in batch])
        except Exception as error:  # noqa: BLE001 — raised to the caller
            if len(batch) > 1:
                for waiting in batch:
                    await self._write_batch([waiting])
            elif not batch[0].run_id.done():
                batch[0].run_id.set_exception(error)
            return
        for waiting, run_id in zip(batch, ids, strict=True):
            if not waiting.run_id.done():
                waiting.run_id.set_result(run_id)

    async def _store_runs(self, prepared: Sequence[Prepared]) -> list[str]:
        runs, definitions = _new(prepared), _definitions(prepared)
        # The ids are generated here, so a retry cannot store a run twice.
        write = partial(self._store.runs.enqueue, runs, definitions)
        ids = await self._retrier.run("enqueue", write, errors=StoreUnavailableError, tries=MAX_TRIES)
        await self.announce(runs, ids)
        return ids

    async def announce(self, runs: Sequence[NewRun], ids: Sequence[str]) -> None:
        """Wake workers for due runs and emit RunQueued for new runs. `ids` are those of the stored runs."""
        stored, now = set(ids), self._clock.now()
        new = [run for run in runs if run.id in stored]
        due = sorted({run.queue for run in new if run.delay <= 0.0 and (run.at or 0.0) <= now})
        if due:
            await self._store.hint(due)
        if self._event_bus.is_subscribed(RunQueued):
            for run in new:
                self._event_bus.emit(
                    RunQueued(
                        org=run.org,
                        run_id=run.id,
                        workflow=run.workflow,
                        queue=run.queue,
                        correlation_id=run.correlation_id,
                    )
                )

    def _metadata(self, metadata: Mapping[str, Any] | None) -> str | None:
        if metadata is None:
            return None
        require_kind("metadata", metadata, Mapping)
        return self._encryption.encrypt(json_and_text(dict(metadata), limits=self._limits)[1])

    def _due_time(self, options: StartOptions) -> float | None:
        at = options.get("at")
        if at is None:
            return None
        if options.get("delay", 0.0):
            raise InvalidValueError("pass either delay or at, not both")
        if isinstance(at, datetime):
            if at.tzinfo is None:
                raise InvalidValueError(
                    f"at must have a time zone, got {at!r}; for example datetime.now(UTC)"
                )
            at = at.timestamp()
        require("at, in seconds since 1970,", at, 0.0, self._clock.now() + MAX_START_DELAY_SECONDS)
        return float(at)


def _new(prepared: Iterable[Prepared]) -> list[NewRun]:
    return [run for run, _ in prepared]


def _definitions(runs: Sequence[Prepared]) -> list[DefinitionRow]:
    return list({definition.digest: definition for _, definition in runs}.values())


def _checked_text(name: str, text: object) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str) or not text or len(text) > MAX_KEY_LENGTH or not text.isprintable():
        raise InvalidValueError(
            f"{name} must be a string of 1 to {MAX_KEY_LENGTH} printable characters, got {text!r}"
        )
    return text


def _checked_key(key: object) -> str | None:
    text = _checked_text("key", key)
    if text is not None and text.startswith(RESERVED_PREFIX):
        raise InvalidValueError(
            f"key must not start with {RESERVED_PREFIX!r}, which is reserved for dead-letter queues; "
            f"got {text!r}"
        )
    if text is not None and is_key_of_further_run(text):
        raise InvalidValueError(
            f"key must not end with '~again~' and an id, which is reserved for further runs of projectors; "
            f"got {text!r}"
        )
    return text


def _checked_after_failure(options: StartOptions) -> AfterFailure:
    choice = options.get("after_failure", AfterFailure.WAIT)
    if choice not in tuple(AfterFailure):
        raise InvalidValueError(f"after_failure must be 'wait' or 'proceed', got {choice!r}")
    if "after_failure" in options and options.get("order_key") is None:
        raise InvalidValueError(
            "after_failure is for runs with an order key; pass order_key, or leave after_failure out"
        )
    return AfterFailure(choice)


def _checked_tags(tags: Iterable[str]) -> str | None:
    require_list("tags", tags, "words")
    words: list[Any] = list(tags)
    if len(words) > MAX_TAGS or not all(isinstance(word, str) and word for word in words):
        raise InvalidValueError(f"tags must be a list of at most {MAX_TAGS} non-empty strings, got {tags!r}")
    return encode(words) if words else None
