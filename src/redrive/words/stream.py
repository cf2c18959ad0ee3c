"""Streams: why reading fails or pauses, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

STREAMS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "redis_unreachable": lambda it: (
            f"Redis can't be reached ({it['error']}). Check that it runs and that its address is right"
        ),
        "redis_loading": lambda it: (
            "Redis is starting and still loads its data. Reading continues afterwards"
        ),
        "redis_read_only": lambda it: (
            "this Redis server is a read-only replica. Point the stream at the primary, for example with a "
            "Sentinel client"
        ),
        "redis_out_of_memory": lambda it: (
            "Redis is out of memory and rejects writes. Raise maxmemory, or trim streams that nobody reads"
        ),
        "redis_wrong_password": lambda it: (
            "Redis rejects the user name or password. Check the address of the stream"
        ),
        "redis_not_permitted": lambda it: (
            f"the Redis user may not execute a command ({it['error']}). Grant it the commands of streams"
        ),
        "redis_wrong_type": lambda it: (
            f"the key {it['key']!r} in Redis is not a stream. Check the option stream= of the stream"
        ),
        "redis_group_missing": lambda it: (
            "the stream or its consumer group was removed from Redis. It is created again, and read from its "
            "first entry on"
        ),
        "redis_error": lambda it: f"Redis reported an error: {it['error']}",
        "redis_decodes": lambda it: (
            "the Redis client decodes responses, which damages binary fields. Create it with "
            "decode_responses=False"
        ),
        "stream_store_unavailable": lambda it: (
            f"the database can't be reached, so nothing is read: {it['error']}"
        ),
        "stream_bug": lambda it: f"a consumer failed unexpectedly: {it['error']}",
        "stream_paused": lambda it: f"{it['by']} has paused the stream. Resume it to read on",
        "stream_backlog": lambda it: (
            f"{it['queued']:,} runs of projectors are queued, and max_queued is {it['max_queued']:,}. "
            f"Reading continues when fewer than 80 % of that are left; add workers, or raise max_queued"
        ),
        "stream_other_reader": lambda it: (
            "another consumer is the reader of this ordered stream. This one takes over if that one stops"
        ),
        "stream_many_invalid": lambda it: (
            f"{it['entries']:,} invalid entries wait for another attempt. Reading continues afterwards"
        ),
    }
)
"""The sentence of each fact about a stream."""
