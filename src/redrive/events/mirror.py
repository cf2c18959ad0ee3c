"""Dead letters of a stream that wait to be mirrored to its stream `.dlq`, with the fields of its entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.engine.ids import Ids
from redrive.errors import NotFoundError
from redrive.events.ingest import mirror_topic
from redrive.events.stream import Stream
from redrive.model.dead_letter import DeadLetter, DeadLetterState
from redrive.model.stream import OutboxEntry
from redrive.policy.codec import decode_stored, encode
from redrive.store.store import Store

LEASE_SECONDS = 30.0
MAX_BATCH = 50
STATUS = {
    DeadLetterState.OPEN: "pending",
    DeadLetterState.EXHAUSTED: "pending",
    DeadLetterState.REPLAYING: "replaying",
    DeadLetterState.RESOLVED: "replayed",
    DeadLetterState.IGNORED: "discarded",
    DeadLetterState.ARCHIVED: "discarded",
}
"""The words for dead letters of streams (G11)."""


class MirroredLetter(NamedTuple):
    """A dead letter to mirror. `fields` are those of its entry in the stream `.dlq`."""

    key: str
    fields: dict[str, str]
    outbox: OutboxEntry


class LetterMirror:
    """Takes dead letters of a stream out of the outbox."""

    def __init__(self, stream: Stream, store: Store, ids: Ids) -> None:
        self._stream = stream
        self._store = store
        self._topic = mirror_topic(stream.name)
        self._token = ids.token()

    async def take(self) -> Sequence[MirroredLetter]:
        """Take dead letters that are not mirrored yet, under a lease."""
        entries = await self._store.outbox.take(
            self._topic, self._stream.org, self._token, lease_seconds=LEASE_SECONDS, most=MAX_BATCH
        )
        return [await self._mirrored(entry) for entry in entries]

    async def remove(self, letters: Sequence[MirroredLetter]) -> None:
        """Forget mirrored dead letters."""
        await self._store.outbox.remove([letter.outbox for letter in letters], self._token)

    async def _mirrored(self, entry: OutboxEntry) -> MirroredLetter:
        try:
            letter = await self._store.dead_letters.get(entry.key, entry.org)
        except NotFoundError:  # removed after its retention period, before Redis could take it
            return MirroredLetter(entry.key, {}, entry)
        return MirroredLetter(entry.key, self._fields(letter, entry), entry)

    def _fields(self, letter: DeadLetter, entry: OutboxEntry) -> dict[str, str]:
        """Return the fields of G11. Payload and error are redacted, as in the dead letter."""
        reference: Any = decode_stored(entry.reference)
        return {
            "id": letter.id,
            "source_stream": self._stream.key,
            "source_message_id": reference["message_id"],
            "payload": encode(letter.payload),
            "error": f"{letter.error_type}: {letter.message}",
            "attempts": str(reference["tries"]),
            "last_attempt_at": f"{letter.last_failed_at or letter.created_at:.3f}",
            "status": STATUS[letter.state],
            "created_at": f"{letter.created_at:.3f}",
            "updated_at": f"{letter.updated_at:.3f}",
        }
