"""The streams of the scene: one that is read, one whose Redis is away, and events of the first one."""

from __future__ import annotations

from random import Random
from typing import Any

from redrive.app import Redrive
from redrive.events import Event
from redrive.model.fact import fact
from redrive.model.stream import START, Gap, StreamName, StreamReport, StreamState
from redrive.parts import parts_of

ORDERS, CLICKS = StreamName("default", "orders"), StreamName("default", "clicks")
_TYPES = ("order.placed", "order.paid", "order.paid", "order.shipped")


async def record(app: Redrive, random: Random, first: int, number: int) -> None:
    """Some events, as a consumer would store them; those in pounds cannot be projected by one projector."""
    events = [_event(random, order) for order in range(first, first + number)]
    await app.events().record(ORDERS.name, events)


def _event(random: Random, order: int) -> Event:
    return Event(
        type=random.choice(_TYPES),
        payload={
            "order": order,
            "total": random.randrange(10, 400),
            "currency": "GBP" if order % 6 == 0 else random.choice(("CHF", "EUR")),
            "card": "4242 4242 4242 4242",
            "items": [{"sku": f"SKU-{random.randrange(100, 999)}", "quantity": 1} for _ in range(2)],
        },
        dedupe_key=f"order-{order}",
        source=random.choice(("web-shop", "app")),
        user=f"customer-{random.randrange(1, 40)}",
    )


async def report(app: Redrive, now: float) -> None:
    """What the consumers have reported last."""
    streams = parts_of(app).store.streams
    for name in (ORDERS, CLICKS):
        await streams.ensure(name)
        await streams.begin_generation(name, "", "scene")
    figures = {"stored": 48_212, "duplicates": 127, "dead": 3, "taken_over": 12, "seen": None}
    seen: dict[str, Any] = {"lag": 214, "pending": 20, "oldest_at": now - 9.0, "rate": 12.4}
    await streams.report(ORDERS, _report(**figures, **seen))
    away = fact("redis_unreachable", error="Error 111 connecting to clicks.internal:6379")
    lost: dict[str, Any] = {"last_error": away.encode(), "error_at": now - 40.0, "lag": 3_120}
    await streams.report(CLICKS, _report(**{**figures, "stored": 9_120_331}, **lost))
    await streams.add_gap(CLICKS, Gap(1, "1767225600000-0", "1767225731000-4", now - 7_200.0))


async def pulse(app: Redrive) -> None:
    """The same reports again: the consumers are still there."""
    streams = parts_of(app).store.streams
    now = parts_of(app).clock.now()
    for state in await streams.all(ORDERS.org):
        await streams.report(StreamName(state.org, state.name), _again(state, now))


def _again(state: StreamState, now: float) -> StreamReport:
    oldest_at = None if state.oldest_at is None else now - 9.0
    kept = {"lag": state.lag, "pending": state.pending, "oldest_at": oldest_at, "rate": state.rate}
    return _report(**kept, stored=0, duplicates=0, dead=0, taken_over=0)


def _report(**figures: Any) -> StreamReport:
    fields = dict.fromkeys(StreamReport._fields) | {"generation": 1, "last_position": START.text}
    return StreamReport(**{**fields, **figures})
