"""Drills with the stream of orders: an event is published many times, and a dead entry is replayed.

They look at Redis and at the database, not at the figures that consumers report.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from redrive.demo import redis_server
from redrive.demo.acme.app import ORDERS
from redrive.demo.folder import Running
from redrive.demo.stage import BY, Stage
from redrive.errors import RedriveError

DELIVERIES = 8
GROUP = "redrive"
MIRROR = f"{ORDERS}.dlq"
PROJECTED = {"revenue": ("succeeded", 1), "delivery": ("succeeded", 1)}
"""State and attempts of each projector when an event is done."""


async def duplicate_events(stage: Stage, running: Running) -> None:
    entry = _entry(stage)
    async with _redis(running) as one, _redis(running) as two:
        stage.say(f"The same event is published {DELIVERIES} times at once, by two producers.")
        clients = [one, two] * (DELIVERIES // 2)
        ids = await asyncio.gather(*(client.xadd(ORDERS, entry) for client in clients))
        projected = await stage.until(lambda: _projections(stage), lambda found: found == [PROJECTED])
        stage.expect(
            "there is one event, and each projector has executed it once", projected == [PROJECTED], projected
        )
        pending = await stage.until(lambda: _undecided(one, ids), lambda found: not found)
        stage.expect("all entries are acknowledged", not pending, pending)
        stage.say("The event is published once more.")
        ids.append(await one.xadd(ORDERS, entry))
        pending = await stage.until(lambda: _undecided(one, ids), lambda found: not found)
        stage.expect("the late entry is acknowledged, too", not pending, pending)
        projected = await _projections(stage)
        stage.expect("there is still one event, executed once", projected == [PROJECTED], projected)
        mirrored = await _mirrored(one, ids)
        stage.expect("no entry became a dead letter", not mirrored, mirrored)


async def dead_event(stage: Stage, running: Running) -> None:
    failures, entry = stage.app.failures(by=BY), _entry(stage)
    del entry["type"]
    async with _redis(running) as redis:
        stage.say("An event is published without its type.")
        ids = [await redis.xadd(ORDERS, entry)]
        mirrored = await stage.until(lambda: _mirrored(redis, ids), bool)
        stage.expect(f"it is in the stream {MIRROR} once", len(mirrored) == 1, mirrored)
        if not mirrored:
            return
        pending = await stage.until(lambda: _undecided(redis, ids), lambda found: not found)
        stage.expect("the entry is acknowledged", not pending, pending)
        stage.expect("nothing was stored as an event", not await _projections(stage))
        letter = await failures.view(mirrored[0]["id"])
        stage.expect("its dead letter is open", letter.state == "OPEN", letter.state)
        stage.say("An operator adds the type, and replays the dead letter.")
        reason = "the producer forgot the type"
        await failures.replay(letter.id, set_fields={"fields.type": "order.placed"}, reason=reason)
        projected = await stage.until(lambda: _projections(stage), lambda found: found == [PROJECTED])
        stage.expect("the event is stored, and each projector has executed it once", projected == [PROJECTED])
        after = await stage.until(
            lambda: failures.view(letter.id), lambda found: str(found.state) != "REPLAYING"
        )
        stage.expect("the dead letter is resolved", after.state == "RESOLVED", after.state)
        stage.expect("a second replay is rejected", await _is_rejected(stage, letter.id))
        mirrored = await _mirrored(redis, ids)
        stage.expect(f"it is in the stream {MIRROR} once, still", len(mirrored) == 1, mirrored)


def _entry(stage: Stage) -> dict[str, Any]:
    order = stage.traffic.order(name=stage.mark).payload
    payload = json.dumps({field: order[field] for field in ("order", "sku", "cents", "address")})
    return {"type": "order.placed", "event_id": stage.mark, "source": "drill", "payload": payload}


async def _projections(stage: Stage) -> list[dict[str, tuple[str, int]]]:
    """Return, for each event with the key of this drill, the state and attempts of each projector."""
    page = await stage.app.events().find(f"key:{stage.mark}")
    return [
        {record.projector: (str(record.status), record.attempt) for record in event.projections}
        for event in page.events
    ]


async def _undecided(redis: Any, ids: Sequence[bytes]) -> list[str]:
    """Return the entries that the group was not given, or has not acknowledged."""
    groups = {group["name"].decode(): group for group in await redis.xinfo_groups(ORDERS)}
    last = groups[GROUP]["last-delivered-id"].decode() if GROUP in groups else "0-0"
    found = [message_id.decode() for message_id in ids]
    unread = [message_id for message_id in found if _place(message_id) > _place(last)]
    pending = [one for one in found if await redis.xpending_range(ORDERS, GROUP, one, one, 1)]
    return unread + pending


async def _mirrored(redis: Any, ids: Sequence[bytes]) -> list[dict[str, str]]:
    """Return the entries of the stream `.dlq` that belong to these entries."""
    entries = [
        {name.decode(): value.decode() for name, value in fields.items()}
        for _, fields in await redis.xrange(MIRROR)
    ]
    sources = {message_id.decode() for message_id in ids}
    return [entry for entry in entries if entry["source_message_id"] in sources]


def _place(message_id: str) -> tuple[int, int]:
    milliseconds, _, number = message_id.partition("-")
    return int(milliseconds), int(number)


async def _is_rejected(stage: Stage, letter_id: str) -> bool:
    try:
        await stage.app.failures(by=BY).replay(letter_id)
    except RedriveError:
        return True
    return False


@asynccontextmanager
async def _redis(running: Running) -> AsyncIterator[Any]:
    url = redis_server.url_of(Path(running.directory))
    if not url:
        raise RedriveError(redis_server.MISSING)
    from redis.asyncio import Redis

    client = Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()
