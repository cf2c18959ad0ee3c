"""Orders, from the basket to the parcel."""

from __future__ import annotations

from typing import Any

from . import mail
from .sdk.restful.client import Client
from .trouble import TROUBLES

Order = dict[str, Any]

warehouse = Client("warehouse", "https://warehouse.internal/v2", 0.08)
carrier = Client("carrier", "https://api.parcel.example/shipments", 0.4)

ZONES = {"CH": 1, "DE": 1, "AT": 1, "FR": 2, "IT": 2, "ES": 2, "US": 4, "JP": 5}


class OutOfStockError(ValueError):
    pass


async def reserve_stock(order: Order) -> Order:
    for line in order["lines"]:
        await _reserve(order, line)
    return {**order, "reservation": f"rsv_{order['order_id']}"}


async def _reserve(order: Order, line: dict[str, Any]) -> None:
    if TROUBLES.met("stock", order["order_id"]):
        raise OutOfStockError(f"only 0 of {line['sku']} left, {line['quantity']} ordered")
    await warehouse.post("/reservations", line, order["order_id"])


async def create_shipment(order: Order) -> Order:
    label = label_for(order)
    answer = await carrier.post("", label, order["order_id"])
    return {**order, "tracking": answer["id"]}


def label_for(order: Order) -> dict[str, Any]:
    address = order["address"]
    if not TROUBLES.met("addresses", order["order_id"]):
        return {"to": address, "zone": ZONES.get(address["country"], 6)}
    if TROUBLES.met("zones", order["order_id"]):
        return {"to": address, "zone": ZONES[f"{address['country']}-{address['region']}"]}
    return {"to": address, "postal_code": address["postal_code"], "zone": zone_of(address)}


def zone_of(address: dict[str, Any]) -> int:
    return ZONES[address["country"]]


async def confirm_order(order: Order) -> str:
    return await mail.send("order-confirmation", order["customer"]["email"], order["order_id"])
