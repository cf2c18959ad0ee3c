"""Starting runs: each is stored durably before a worker executes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypedDict

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
from redrive.model.event import RunQueued
from redrive.model.run import NewRun
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_kind, require_seconds, require_whole
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
RESERVED = "dlq:"
"""So begin the keys of runs that failed tasks of other systems are kept as."""
PIECE = 250
"""So many runs are written at a time, while the next ones are prepared."""


class StartOptions(TypedDict, total=False):
    """How a run is started.

    org             whom it belongs to; "default" unless given
    key             idempotency key: the same key is the same run; with another payload it is a conflict
    priority        from -100 to 100, higher first; 0 unless given
    delay           seconds, or a timedelta, until it is due
    at              when it is due: a datetime with a time zone, or seconds since 1970
    queue           another queue than that of its first task
    correlation_id  what it has to do with; made up unless given
    tags            words to find it by
    metadata        anything that describes it, as JSON
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


Prepared = tuple[NewRun, DefinitionRow]
"""A run to be stored, and what it consists of."""


class _Common(NamedTuple):
    """What runs that are started together share, checked. `signature` is that of the first task, if known."""

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


class Pieces:
    """Runs, a piece at a time: each is prepared when it is asked for. Asked again, the same ones."""

    def __init__(self, prepared: Iterable[Prepared]) -> None:
        self._source = iter(prepared)
        self.made: list[list[Prepared]] = []

    def __iter__(self) -> Iterator[list[Prepared]]:
        yield from self.made
        while piece := list(islice(self._source, PIECE)):
            self.made.append(piece)
            yield piece


class _Waiting(NamedTuple):
    """A caller that waits for its run to be stored, and then for the id."""

    prepared: Prepared
    run_id: asyncio.Future[str]


class Enqueuer:
    """Stores new runs. Callers that come while a write is in progress share the next one."""

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

    def prepare(self, workflow: str, payload: object, options: StartOptions) -> Prepared:
        """A run to be stored. Everything that could be wrong with it is rejected here."""
        return self._new_run(self._common(workflow, options), payload, options.get("key"))

    def prepare_many(
        self, workflow: str, payloads: Iterable[object], keys: Iterable[str] | None, options: StartOptions
    ) -> Iterator[Prepared]:
        """Runs to be stored, each made when it is asked for."""
        if options.get("key") is not None:
            raise InvalidValueError("one idempotency key cannot stand for many runs; give keys, one for each")
        common = self._common(workflow, options)
        if keys is None:
            return (self._new_run(common, payload, None) for payload in payloads)
        several, names = list(payloads), list(keys)
        if len(several) != len(names):
            raise InvalidValueError(f"there are {len(several)} payloads, but {len(names)} keys")
        return (self._new_run(common, payload, key) for payload, key in zip(several, names, strict=True))

    def _common(self, workflow: str, options: StartOptions) -> _Common:
        reject_unknown("a run is started with no option", options, StartOptions.__optional_keys__)
        definition = self._registry.workflow(workflow)
        first = self._registry.tasks.get(definition.steps[0].task)
        org = checked_name("org", options.get("org", DEFAULT_ORG))
        queue = options.get("queue")
        priority = options.get("priority", 0)
        require_whole("priority", priority, -MAX_PRIORITY, MAX_PRIORITY)
        delay = require_seconds("delay", options.get("delay", 0.0), 0.0, MAX_START_DELAY_SECONDS)
        return _Common(
            definition=DefinitionRow(definition.digest, workflow, definition.body),
            signature=None if first is None else first.signature,
            org=org,
            queue=definition.steps[0].queue if queue is None else self._registry.queue(queue),
            priority=priority,
            delay=float(delay),
            at=self._due_time(options),
            correlation_id=_checked_text("correlation_id", options.get("correlation_id")),
            tags=_checked_tags(options.get("tags", ())),
            metadata=self._metadata(options.get("metadata")),
        )

    def _new_run(self, common: _Common, payload: object, key: str | None) -> Prepared:
        value, text = json_and_text(payload, limits=self._limits)
        if common.signature is not None:
            common.signature.check(value)
        key = _checked_key(key)
        workflow, identifier = common.definition.workflow, self._ids.new()
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
        )
        return run, common.definition

    async def start(self, prepared: Prepared) -> str:
        """Store a run; its id, or that of the run that has its idempotency key."""
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
        """Wait for the write after the one in progress, which stores all runs that came meanwhile."""
        run_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(prepared, run_id))
        return await run_id  # cancelled with its caller; the run is stored all the same

    async def start_many(self, prepared: Iterable[Prepared]) -> list[str]:
        """Store runs of one workflow, all or none of them."""
        pieces = Pieces(prepared)
        write = partial(self._write_pieces, pieces)
        ids = await self._retrier.run("enqueue", write, errors=StoreUnavailableError, tries=MAX_TRIES)
        await self._hint([run for piece in pieces.made for run in _new(piece)], ids)
        return ids

    async def _write_pieces(self, pieces: Pieces) -> list[str]:
        making = iter(pieces)
        first = next(making, [])
        if len(first) < PIECE:
            return await self._store.runs.enqueue(_new(first), _definitions(first)) if first else []
        every = map(_new, chain([first], making))
        return await self._store.runs.enqueue_pieces(every, _definitions(first))

    async def define(self, runs: Sequence[Prepared]) -> None:
        """Store what the runs consist of, before a transaction is joined."""
        await self._store.runs.define(_definitions(runs))

    async def start_within(self, session: JoinedSession, runs: Sequence[Prepared]) -> list[str]:
        """Store runs as part of the user's own transaction: they exist exactly if it is committed."""
        new = _new(runs)
        ids = await self._store.runs.enqueue_within(session, new)
        await session.hint(sorted({run.queue for run in new}))
        return ids

    async def _write_shared(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # callers that were just answered may start again, and share it
            batch, self._waiting = self._waiting, []
            await self._write_batch(batch)

    async def _write_batch(self, batch: Sequence[_Waiting]) -> None:
        """Store the runs of several callers at once; after an error one by one, as it may be due to one."""
        try:
            ids = await self._store_runs([waiting.prepared for waiting in batch])
        except Exception as error:  # noqa: BLE001 — it is the callers' to see
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
        # The ids are ours, so trying again cannot store anything twice.
        write = partial(self._store.runs.enqueue, runs, definitions)
        ids = await self._retrier.run("enqueue", write, errors=StoreUnavailableError, tries=MAX_TRIES)
        await self._hint(runs, ids)
        return ids

    async def _hint(self, runs: Sequence[NewRun], ids: Sequence[str]) -> None:
        """Wake workers for the runs that are due, and emit those that are new: `ids` are what was stored."""
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
            raise InvalidValueError("give delay or at, not both")
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
            f"{name} must be a text of 1 to {MAX_KEY_LENGTH} printable characters, got {text!r}"
        )
    return text


def _checked_key(key: object) -> str | None:
    text = _checked_text("key", key)
    if text is not None and text.startswith(RESERVED):
        raise InvalidValueError(
            f"key must not begin with {RESERVED!r}: tasks of dead-letter queues have such"
        )
    return text


def _checked_tags(tags: Sequence[str]) -> str | None:
    words: list[Any] = list(tags) if isinstance(tags, list | tuple | set | frozenset) else [None]
    if len(words) > MAX_TAGS or not all(isinstance(word, str) and word for word in words):
        raise InvalidValueError(f"tags must be a list of at most {MAX_TAGS} words, got {tags!r}")
    return encode(words) if words else None
