"""The outbox: changes that are to be delivered to another system, at least once.

A change is put there in the transaction that makes it, so neither exists without the other. A process takes
a batch under a lease, delivers it, and removes it. A process that dies leaves the batch to the next one once
the lease has expired, so a receiver must recognize a key and version that it has received before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.field import BigInt
from redrive.model.stream import OutboxEntry
from redrive.store.database import Session
from redrive.store.statement import statements


class NewOutboxEntry(NamedTuple):
    topic: str
    org: str
    key: str
    version: BigInt
    reference: str


class Delivered(NamedTuple):
    """A delivered entry. It stays if a newer version has arrived, or if another process has taken it."""

    topic: str
    org: str
    key: str
    version: BigInt
    token: BigInt


_SQL = statements("outbox", NewOutboxEntry, OutboxEntry, Delivered)


class Outbox:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def put(self, session: Session, entries: Sequence[OutboxEntry]) -> None:
        """Add entries in the caller's transaction. A key that waits already gets the newer version."""
        ordered = sorted(entries, key=lambda entry: (entry.topic, entry.org, entry.key))
        await session.fetch_many(_SQL["put"], ordered)

    async def take(
        self, topic: str, org: str, token: int, *, lease_seconds: float, most: int
    ) -> list[OutboxEntry]:
        """Take up to `most` entries of a topic, oldest first, for `lease_seconds`."""
        parameters = {
            "topic": topic,
            "org": org,
            "token": token,
            "lease_seconds": lease_seconds,
            "most": most,
        }
        rows = await self._session.fetch(_SQL["take"], parameters)
        return sorted(OutboxEntry._make(row) for row in rows)

    async def remove(self, entries: Sequence[OutboxEntry], token: int) -> None:
        """Remove delivered entries that this process still holds, unless a newer version has arrived."""
        delivered = [
            Delivered(topic=entry.topic, org=entry.org, key=entry.key, version=entry.version, token=token)
            for entry in entries
        ]
        await self._session.fetch_many(_SQL["remove"], delivered)

    async def count(self, topic: str, org: str) -> int:
        [row] = await self._session.fetch(_SQL["count"], {"topic": topic, "org": org})
        return int(row[0])
