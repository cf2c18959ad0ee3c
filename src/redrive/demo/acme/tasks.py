"""The steps of Acme's workflows: orders, new accounts, a supplier's catalogue, and reports for merchants."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from redrive import Context
from redrive.events import Event

from .services import Services

Order = dict[str, Any]
Account = dict[str, Any]
Feed = dict[str, Any]
Report = dict[str, Any]

ZONES = "zones.toml"


class MissingZoneError(LookupError):
    """The country of an order has no shipping zone."""


class Checkout:
    """An order, from the basket to the parcel."""

    def __init__(self, services: Services, folder: Path) -> None:
        self._services = services
        self._zones = folder / ZONES

    def reserve(self, order: Order) -> Order:
        return {**order, "shelf": f"{order['quantity']} from aisle {len(order['sku']) % 9 + 1}"}

    async def charge(self, order: Order, context: Context) -> Order:
        body = {"reference": order["order"], "cents": order["cents"], "card": order["card"]}
        paid = await self._services.post("payments", "/charges", body, context)
        return {**order, "payment": paid["id"]}

    async def label(self, order: Order, context: Context) -> Order:
        zone = self.zone_of(order["address"]["country"])
        body = {"reference": order["order"], "to": order["address"], "zone": zone}
        printed = await self._services.post("carrier", "/labels", body, context)
        return {**order, "parcel": printed["id"]}

    def zone_of(self, country: str) -> int:
        zones = tomllib.loads(self._zones.read_text(encoding="utf-8"))
        if country not in zones:
            raise MissingZoneError(f"no shipping zone for {country} in {ZONES}")
        return int(zones[country])

    async def confirm(self, order: Order, context: Context) -> str:
        email, text = order["customer"]["email"], "Your parcel is on its way."
        body = {"reference": order["order"], "to": email, "text": text}
        await self._services.post("mail", "/messages", body, context)
        return f"{order['order']} has shipped as parcel {order['parcel']}"


class OrderProjections:
    """What Acme derives from the events of orders."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout

    def revenue(self, event: Event) -> float:
        return float(event.payload["cents"]) / 100

    def delivery(self, event: Event) -> str:
        """Estimate when the parcel arrives. Without a shipping zone, it fails like the label does."""
        zone = self._checkout.zone_of(event.payload["address"]["country"])
        return f"{event.payload['order']} arrives in {1 + zone} days"


class Provisioning:
    """A new customer's account: open it, issue a key, grant permissions, send a welcome message."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def open_account(self, account: Account, context: Context) -> Account:
        body = {"reference": account["account"], "email": account["email"], "password": account["password"]}
        opened = await self._services.post("identity", "/accounts", body, context)
        return {**account, "id": opened["id"]}

    async def issue_key(self, account: Account, context: Context) -> Account:
        body = {"reference": account["account"], "id": account["id"]}
        issued = await self._services.post("identity", "/keys", body, context)
        return {**account, "api_key": issued["id"]}

    async def grant(self, account: Account, context: Context) -> Account:
        body = {"reference": account["account"], "plan": account["plan"]}
        await self._services.post("identity", "/grants", body, context)
        return account

    async def welcome(self, account: Account, context: Context) -> str:
        body = {"reference": account["account"], "to": account["email"], "text": "Welcome to Acme."}
        await self._services.post("mail", "/messages", body, context)
        return f"{account['account']} is ready"


class CatalogueImport:
    """The products that a supplier offers, read from its feed."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def fetch(self, feed: Feed) -> Feed:
        answer = await self._services.get("supplier", "/products", feed["feed"])
        return {**feed, "products": answer["products"]}

    def parse(self, feed: Feed) -> Feed:
        prices = [price_of(product) for product in feed["products"]]
        return {"feed": feed["feed"], "cheapest": min(prices), "products": len(prices)}

    def publish(self, feed: Feed) -> str:
        return f"{feed['products']} products from {feed['cheapest']:.2f}"


def price_of(product: dict[str, Any]) -> float:
    return float(product["price"])


class MerchantReport:
    """A report for a merchant: collect the figures, render pages, send them."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def collect(self, report: Report) -> Report:
        answer = await self._services.get("analytics", "/figures", report["report"], timeout=1.0)
        return {**report, "rows": answer["rows"]}

    def render(self, report: Report) -> Report:
        return {**report, "pages": 1 + report["rows"] // 40}

    async def send(self, report: Report, context: Context) -> str:
        body = {"reference": report["report"], "to": report["to"], "text": f"{report['pages']} pages"}
        await self._services.post("mail", "/messages", body, context)
        return f"{report['report']} was sent"
