"""Orders, from the basket to the parcel."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from redrive import Context

from .outside import Outside

Order = dict[str, Any]
ZONES = "zones.toml"


class MissingZoneError(LookupError):
    """There is a country in an order that nobody has given a shipping zone."""


class Checkout:
    def __init__(self, outside: Outside, folder: Path) -> None:
        self._outside = outside
        self._zones = folder / ZONES

    def reserve(self, order: Order) -> Order:
        return {**order, "shelf": f"{order['quantity']} from aisle {len(order['sku']) % 9 + 1}"}

    async def charge(self, order: Order, context: Context) -> Order:
        body = {"reference": order["order"], "cents": order["cents"], "card": order["card"]}
        paid = await self._outside.post("payments", "/charges", body, context)
        return {**order, "payment": paid["id"]}

    async def label(self, order: Order, context: Context) -> Order:
        zone = self.zone_of(order["address"]["country"])
        body = {"reference": order["order"], "to": order["address"], "zone": zone}
        printed = await self._outside.post("carrier", "/labels", body, context)
        return {**order, "parcel": printed["id"]}

    def zone_of(self, country: str) -> int:
        zones = tomllib.loads(self._zones.read_text(encoding="utf-8"))
        if country not in zones:
            raise MissingZoneError(f"there is no shipping zone for {country} in {ZONES}")
        return int(zones[country])

    async def confirm(self, order: Order, context: Context) -> str:
        body = {
            "reference": order["order"],
            "to": order["customer"]["email"],
            "text": "Your parcel is on its way.",
        }
        await self._outside.post("mail", "/messages", body, context)
        return f"{order['order']} has left, as parcel {order['parcel']}"
