"""What the shop derives from the events of orders. One of the projections has a bug."""

from __future__ import annotations

from redrive.events import Event


async def invoice(event: Event) -> None:
    pass


async def loyalty(event: Event) -> None:
    points = {"CHF": 2, "EUR": 2}
    points[event.payload["currency"]] * event.payload["total"]


async def search(event: Event) -> None:
    pass
