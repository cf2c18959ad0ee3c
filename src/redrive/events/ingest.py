"""Storing the entries of a stream: as events with their runs, or as dead letters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from redrive.clock import Clock
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.encryption import Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.evidence import Evidence, evidence_of, evidence_without_error
from redrive.engine.ids import Ids
from redrive.engine.payload import json_and_text
from redrive.engine.registry import Registry
from redrive.engine.reported_failure import ReportedFailure
from redrive.engine.work import Work
from redrive.errors import InvalidEntryError, LeaseLostError, NotStorableError
from redrive.events.control import ReaderLease
from redrive.events.entry import StreamEntry, entry_from_json
from redrive.events.recorder import EventRecorder, PreparedEvent, Written
from redrive.events.stream import Stream
from redrive.model.decision import Reason
from redrive.model.failed_task import NewFailedTask
from redrive.model.failure import Category, ErrorClass
from redrive.model.stream import DeadEntry, OutboxEntry, StreamName, StreamPosition
from redrive.policy.codec import JsonLimits, encode
from redrive.policy.idempotency_key import request_hash
from redrive.policy.redact import Redactor
from redrive.store.database import Session
from redrive.store.external_failures import ExternalFailures
from redrive.store.runs import DefinitionRow
from redrive.store.store import Store

CONSUMER = "stream consumer"
"""Stored as the worker of attempts to store an entry."""
MAX_RELEASED = 1_000
"""Ordered runs that one transaction releases."""
MIRROR_TOPIC = "stream dead letters"


def mirror_topic(stream: str) -> str:
    """Return the topic of the outbox under which the dead letters of a stream are mirrored."""
    return f"{MIRROR_TOPIC}: {stream}"


class DeadCause(NamedTuple):
    """Why an entry becomes a dead letter: its error, or None if it has killed its consumers.

    tries  how often it was tried or delivered
    """

    error: BaseException | None
    tries: int


class IngestParts(NamedTuple):
    store: Store
    recorder: EventRecorder
    registry: Registry
    event_bus: EventBus
    letter_policy: DeadLetterPolicy
    redactor: Redactor
    encryption: Encryption
    limits: JsonLimits
    clock: Clock
    ids: Ids
    code_version: str


class EntryIngest:
    """Stores the entries of one stream. Nothing is acknowledged before it returns."""

    def __init__(self, stream: Stream, parts: IngestParts) -> None:
        self.stream = stream
        self.name = StreamName(stream.org, stream.name)
        self._parts = parts
        self._failures = ExternalFailures(parts.store.database, parts.store.limits)

    def prepare(self, entry: StreamEntry) -> PreparedEvent:
        """Decode an entry. Raise if it is too large, is not an event, or names a foreign organization."""
        stream = self.stream
        if entry.size > stream.max_bytes:
            raise InvalidEntryError(
                f"the entry has {entry.size:,} bytes; the stream {stream.name!r} accepts "
                f"{stream.max_bytes:,}. Raise max_bytes, or publish a reference to the data"
            )
        event = stream.event_of(entry)
        return self._parts.recorder.prepare(
            stream, event, generation=entry.generation, position=entry.position
        )

    async def store(
        self,
        prepared: Sequence[PreparedEvent],
        reader: ReaderLease | None = None,
        waiting: Collection[str] = (),
    ) -> Written:
        """Store events and their runs in one transaction. Raise LeaseLostError if the reader was replaced.

        The ordered runs of the events in `waiting` wait for `release`.
        """
        parts = self._parts
        await parts.recorder.define(prepared)
        async with parts.store.database.transaction() as session:
            await self._require_reader(session, reader)
            written = await parts.recorder.write(session, prepared, waiting)
        await parts.recorder.announce(written)
        return written

    async def release(self, reader: ReaderLease, generation: int, before: StreamPosition) -> int:
        """Store the ordered runs of events before an undecided entry, in order. Return their number."""
        parts, stream = self._parts, self.stream
        place = (generation, before.text)
        await parts.store.runs.define([self._definition(projector.task) for projector in stream.projectors])
        async with parts.store.database.transaction() as session:
            await self._require_reader(session, reader)
            found = await parts.store.events.waiting(session, stream.orgs, stream.name, place, MAX_RELEASED)
            planned = parts.recorder.prepare_waiting(stream, found)
            written = await parts.recorder.release(session, planned)
        await parts.recorder.announce(written)
        return len(planned)

    async def count_waiting(self) -> int:
        """Count the ordered projections that wait for an undecided entry."""
        return await self._parts.store.events.count_waiting(self.stream.orgs, self.stream.name)

    async def bury(self, entry: StreamEntry, cause: DeadCause, reader: ReaderLease | None = None) -> bool:
        """Store an entry as a failed run with a dead letter. Return False if it already was one.

        The same transaction puts the letter into the outbox, from which it is mirrored to the stream `.dlq`.
        """
        parts, org = self._parts, self.stream.org
        run_id, letter_id = parts.ids.new(), parts.ids.new()
        definition = parts.registry.workflow(self.stream.store_task.name)
        await parts.store.runs.define([self._definition(definition.workflow)])
        new = self._failed_task(run_id, definition.digest, entry, cause.tries)
        dead = DeadEntry(
            org=org,
            stream=self.stream.name,
            generation=entry.generation,
            position=entry.position.text,
            run_id=run_id,
        )
        evidence = self._evidence(cause)
        async with parts.store.database.transaction() as session:
            await self._require_reader(session, reader)
            if not await parts.store.streams.bury(session, dead):
                return False
            claim = await self._failures.insert(session, new)
            work = Work(claim, definition, None, parts.encryption)
            reason = Reason.WORKER_CRASHED if cause.error is None else Reason.NOT_STORED
            failure = ReportedFailure(work, evidence, reason)
            record = failure.record(letter_id, parts.letter_policy, parts.clock.now())
            recorded = (await parts.store.records.record_within(session, [record]))[run_id]
            await parts.store.outbox.put(session, [self._mirrored(letter_id, run_id, entry, cause.tries)])
        failure.emit(parts.event_bus, recorded)
        return True

    async def store_again(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Decode and store the entry of a replayed dead letter, and start the runs of its projectors."""
        fields, message_id, generation = payload["fields"], payload["message_id"], payload["generation"]
        if fields is None:
            raise InvalidEntryError(
                f"the entry {message_id} was too large to be stored with its dead letter. Read it from "
                f"Redis, and record it with app.events().record(...)"
            )
        prepared = self.prepare(entry_from_json(message_id, fields, generation))
        written = await self.store([prepared])
        return {"event_id": prepared.row.id if written.event_ids else None, "is_new": bool(written.event_ids)}

    def _definition(self, workflow: str) -> DefinitionRow:
        definition = self._parts.registry.workflow(workflow)
        return DefinitionRow(definition.digest, definition.workflow, definition.body)

    async def _require_reader(self, session: Session, reader: ReaderLease | None) -> None:
        """Lock the stream against other readers until the transaction ends."""
        if reader is None:
            return
        streams = self._parts.store.streams
        if not await streams.hold_reader(session, self.name, reader.token, reader.seconds):
            raise LeaseLostError(f"another consumer has become the reader of the stream {self.name.name!r}")

    def _failed_task(self, run_id: str, digest: str, entry: StreamEntry, tries: int) -> NewFailedTask:
        parts, stream = self._parts, self.stream
        facts = {"source_stream": stream.key, "source_message_id": entry.message_id, "tries": tries}
        generation = entry.generation
        payload = {"stream": stream.name, "generation": generation, "message_id": entry.message_id}
        try:
            text = json_and_text({**payload, "fields": entry.to_json()}, limits=parts.limits)[1]
        except NotStorableError:
            text = encode({**payload, "fields": None, "bytes": entry.size})
        return NewFailedTask(
            id=run_id,
            org=stream.org,
            workflow=stream.store_task.name,
            definition=digest,
            queue=stream.store_task.queue,
            priority=0,
            input=parts.encryption.encrypt(text),
            key=f"stream:{stream.name}:{generation}:{entry.message_id}",
            request_hash=request_hash([payload["stream"], generation, entry.message_id]),
            correlation_id=run_id,
            tags=None,
            metadata=parts.encryption.encrypt(encode(facts)),
            token=parts.ids.token(),
            worker=CONSUMER,
            code_version=parts.code_version,
        )

    def _evidence(self, cause: DeadCause) -> Evidence:
        parts, step = self._parts, self.stream.store_task.name
        if cause.error is not None:
            return evidence_of(
                cause.error, classifier=None, redactor=parts.redactor, step=step, now=parts.clock.now()
            )
        return evidence_without_error(
            Category.UNKNOWN,
            ErrorClass.FINAL,
            "consumer_crashed",
            f"the entry was delivered {cause.tries} times, and each consumer died before it had stored it",
            step=step,
        )

    def _mirrored(self, letter_id: str, run_id: str, entry: StreamEntry, tries: int) -> OutboxEntry:
        reference = {"run_id": run_id, "message_id": entry.message_id, "tries": tries}
        return OutboxEntry(
            topic=mirror_topic(self.stream.name),
            org=self.stream.org,
            key=letter_id,
            version=1,
            reference=encode(reference),
        )
