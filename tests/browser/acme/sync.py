"""Updates for other systems: customers, products, webhooks of merchants."""

from __future__ import annotations

from typing import Any

from .sdk.restful.client import Client
from .trouble import TROUBLES

crm = Client("crm", "https://api.crm.example/contacts", 0.3)
feeds = Client("feeds", "https://feeds.supplier.example/catalog.json", 1.2)
search = Client("search", "https://search.internal/products/_bulk", 0.2)
hooks = Client("hooks", "https://hooks.merchant.example", 0.25)


async def push_contact(contact: dict[str, Any]) -> str:
    record = to_record(contact)
    answer = await crm.post("", record, contact["contact_id"])
    return str(answer["id"])


def to_record(contact: dict[str, Any]) -> dict[str, Any]:
    if TROUBLES.met("names", contact["contact_id"]):
        first, last = contact["name"].split(" & ")
        return {"first": first, "last": last}
    return {"name": contact["name"], "email": contact["email"]}


async def fetch_feed(job: dict[str, Any]) -> dict[str, Any]:
    await feeds.get("", job["import_id"])
    return {**job, "products": 250}


async def parse_feed(job: dict[str, Any]) -> dict[str, Any]:
    if TROUBLES.met("prices", job["import_id"]):
        price = price_of({"sku": "SKU-88213", "price": "1.299,00"})
        return {**job, "cheapest": price}
    return {**job, "cheapest": 4.9}


def price_of(product: dict[str, Any]) -> float:
    return float(product["price"])


async def index_products(job: dict[str, Any]) -> int:
    await search.post("", {"supplier": job["supplier"]}, job["import_id"])
    return int(job["products"])


async def deliver_hook(hook: dict[str, Any]) -> str:
    answer = await hooks.post(f"/{hook['merchant']}", {"event": hook["event"]}, hook["event_id"])
    return str(answer["status"])
