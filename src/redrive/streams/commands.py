"""The commands that a consumer sends to Redis, on one stream and its group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError
from redrive.events import Stream, StreamEntry
from redrive.model.stream import StreamPosition, position_of
from redrive.streams.client import connect, is_missing

FIRST_ID = "0-0"
MAX_COUNTED = 1_000
"""Unread entries that are counted one by one where Redis does not count them."""

_ADD_ONCE = """
if redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[3])
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 4))
return 1
"""
# The method of the client for this command does not return where to continue.
_TAKE_OVER = """
return redis.call(
    'XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5], 'JUSTID')
"""
_LEAVE = """
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if #pending > 0 then return 0 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
"""


class TakenOver(NamedTuple):
    """Entries that this consumer has taken over.

    removed  entries that were pending, and that Redis has removed: from Redis 7 on
    next     where to continue; FIRST_ID at the end
    """

    ids: list[str]
    removed: list[str]
    next: str


class GroupPosition(NamedTuple):
    """Where the group of a stream is.

    first           the first entry that still exists, None if the stream is empty
    last            the newest entry that ever existed
    deleted         the newest entry that was deleted by name; None before Redis 7
    delivered       the last entry that the group was given
    lag             how many entries it was not given; None if Redis does not know
    length          how many entries exist
    pending         how many entries were delivered and not acknowledged
    added, read     how many entries were ever added, and given to the group; None if Redis does not know
    """

    first: StreamPosition | None
    last: StreamPosition
    deleted: StreamPosition | None
    delivered: StreamPosition
    lag: int | None
    length: int
    pending: int
    added: int | None = None
    read: int | None = None


class StreamCommands:
    """Commands on the stream, for one consumer of its group."""

    def __init__(self, stream: Stream, consumer: str) -> None:
        self.key = stream.key
        self.group = stream.group
        self.consumer = consumer
        self.mirror_key = f"{stream.key}.dlq"
        self.generation = 1
        self._identity_key = beside(stream.key, ".redrive")
        self._mirrored_key = beside(self.mirror_key, ".mirrored")
        self._client: Any = connect(stream)

    async def close(self) -> None:
        await self._client.aclose()

    # The identity of the stream

    async def identity(self) -> str | None:
        value = await self._client.get(self._identity_key)
        return None if value is None else value.decode()

    async def identify(self, identity: str) -> str:
        """Store the identity of the stream, unless it has one. Return the one that it has."""
        await self._client.set(self._identity_key, identity, nx=True)
        return await self.identity() or identity

    async def create_group(self) -> None:
        """Create the stream and its group, which starts at the first entry, unless they exist."""
        try:
            await self._client.xgroup_create(self.key, self.group, id="0", mkstream=True)
        except Exception as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    # Reading

    async def read(self, count: int, block_ms: int | None) -> list[StreamEntry]:
        """Read new entries. They are pending for this consumer until they are acknowledged."""
        found = await self._client.xreadgroup(
            self.group, self.consumer, {self.key: ">"}, count=count, block=block_ms
        )
        return [self._entry(item) for item in _items_of(found)]

    async def acknowledge(self, message_ids: Sequence[str]) -> None:
        if message_ids:
            await self._client.xack(self.key, self.group, *message_ids)

    async def first_pending(self) -> StreamPosition | None:
        """Return the first entry that any consumer of the group has not acknowledged."""
        summary = await self._client.xpending(self.key, self.group)
        return position_of(summary["min"].decode()) if summary["pending"] else None

    # Taking over

    async def take_over(self, idle_seconds: float, after: str, count: int) -> TakenOver:
        """Become the consumer of entries that were pending for a while. Their deliveries are not counted."""
        parts = (self.group, self.consumer, int(idle_seconds * 1000), after, count)
        following, ids, *more = await self._client.eval(_TAKE_OVER, 1, self.key, *parts)
        removed = more[0] if more else []
        return TakenOver([*map(_text, ids)], [*map(_text, removed)], _text(following))

    async def deliveries(self, message_ids: Sequence[str]) -> dict[str, int]:
        """Return how often pending entries of this consumer were delivered."""
        found: dict[str, int] = {}
        start = message_ids[0]
        while start:
            rows = await self._client.xpending_range(
                self.key, self.group, min=start, max=message_ids[-1], count=1_000, consumername=self.consumer
            )
            found |= {row["message_id"].decode(): row["times_delivered"] for row in rows}
            start = f"({rows[-1]['message_id'].decode()}" if len(rows) == 1_000 else ""
        return found

    async def claim(self, message_ids: Sequence[str]) -> list[StreamEntry]:
        """Deliver pending entries to this consumer again. Those that Redis has removed are missing."""
        found = await self._client.xclaim(self.key, self.group, self.consumer, 0, list(message_ids))
        return [self._entry(item) for item in found if item is not None and item[0] is not None]

    async def leave(self) -> None:
        """Remove this consumer from the group, unless entries are pending for it."""
        await self._client.eval(_LEAVE, 1, self.key, self.group, self.consumer)

    async def remove_silent(self, idle_seconds: float) -> None:
        """Remove consumers that have nothing pending and have been silent for a long time."""
        for consumer in await self._client.xinfo_consumers(self.key, self.group):
            if not consumer["pending"] and consumer["idle"] > idle_seconds * 1000:
                await self._client.eval(_LEAVE, 1, self.key, self.group, _text(consumer["name"]))

    def _entry(self, item: Any) -> StreamEntry:
        return StreamEntry(_text(item[0]), item[1] or {}, self.generation)

    # Looking

    async def position(self) -> GroupPosition:
        info = await self._client.xinfo_stream(self.key)
        groups = await self._client.xinfo_groups(self.key)
        [group] = [group for group in groups if _text(group["name"]) == self.group] or [None]
        if group is None:
            raise MissingGroupError(f"NOGROUP the stream {self.key!r} has no group {self.group!r}")
        first, deleted = info.get("first-entry"), info.get("max-deleted-entry-id")
        return GroupPosition(
            first=None if not first else position_of(_text(first[0])),
            last=position_of(_text(info["last-generated-id"])),
            deleted=None if deleted is None else position_of(_text(deleted)),
            delivered=position_of(_text(group["last-delivered-id"])),
            lag=group.get("lag"),
            length=int(info["length"]),
            pending=int(group["pending"]),
            added=info.get("entries-added"),
            read=group.get("entries-read"),
        )

    async def has_group(self) -> bool:
        """Return whether the stream exists and has the group, which is as old as the stream's generation."""
        try:
            groups = await self._client.xinfo_groups(self.key)
        except Exception as error:
            if not is_missing(error):
                raise
            return False
        return any(_text(group["name"]) == self.group for group in groups)

    async def first_after(self, position: StreamPosition) -> StreamPosition | None:
        """Return the first entry after a position."""
        found = await self._client.xrange(self.key, min=position.next.message_id, max="+", count=1)
        return position_of(_text(found[0][0])) if found else None

    async def count_after(self, position: StreamPosition, where: GroupPosition) -> int:
        """Count the entries after a position, or estimate their number if there are many.

        Redis 6 does not know the lag of a group. The estimate assumes that entries arrived evenly over time.
        """
        if where.first is None or position >= where.last:
            return 0
        if position < where.first:
            return where.length
        found = await self._client.xrange(self.key, min=position.next.message_id, max="+", count=MAX_COUNTED)
        if len(found) < MAX_COUNTED:
            return len(found)
        span = max(1, where.last.milliseconds - where.first.milliseconds)
        share = (where.last.milliseconds - position.milliseconds) / span
        return max(MAX_COUNTED, round(where.length * share))

    # Mirroring

    async def mirror(self, key: str, fields: Mapping[str, str], now: float, forget_before: float) -> bool:
        """Add an entry to the stream `.dlq`, unless it was added before. Return whether it was new.

        The script notes the key and adds the entry in one step.
        """
        pairs = [part for pair in fields.items() for part in pair]
        keys, known = (self._mirrored_key, self.mirror_key), (str(now), key, str(forget_before))
        added = await self._client.eval(_ADD_ONCE, 2, *keys, *known, *pairs)
        return bool(added)

    async def forget_mirrored(self, keys: Iterable[str]) -> None:
        """Forget the keys of entries that can't be mirrored again, because the outbox no longer has them."""
        names = list(keys)
        if names:
            await self._client.zrem(self._mirrored_key, *names)


class MissingGroupError(Exception):
    """The stream exists, its consumer group does not."""


def beside(key: str, suffix: str) -> str:
    """Return the name of a key in the same slot of a Redis Cluster as another key."""
    start = key.find("{")
    end = key.find("}", start + 1)
    if start >= 0 and end > start + 1:
        return key + suffix
    if "}" in key:
        raise InvalidValueError(f"the key {key!r} has a brace but no hash tag, such as {{orders}}; rename it")
    return f"{{{key}}}{suffix}"


def _items_of(answer: Any) -> Sequence[Any]:
    """Read the answer of XREADGROUP, which is a list or, with the newer protocol, a dict."""
    if not answer:
        return []
    if isinstance(answer, dict):
        [found] = answer.values()
        found = found[0] if found and isinstance(found[0], list) else found
    else:
        [[_, found]] = answer
    items: Sequence[Any] = found
    return items


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
