"""Payloads of the shop, as real ones would be, secrets included."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

FIRST = ("Mia", "Luca", "Emma", "Noah", "Sofia", "Elias", "Lena", "Jonas", "Aylin", "Mateo", "Chloé", "Yuki")
LAST = ("Keller", "Rossi", "Dubois", "Weber", "Marino", "Novak", "Schmid", "Tanaka", "Öztürk", "García")
PLACES = [
    ("CH", "Zürich", "8004"),
    ("CH", "Bern", "3011"),
    ("DE", "Berlin", "10435"),
    ("AT", "Wien", "1070"),
    ("FR", "Lyon", "69002"),
    ("IT", "Torino", "10121"),
    ("ES", "Valencia", "46003"),
]
THINGS = [("TEA-GREEN-250", 1490), ("MUG-BLUE", 1900), ("KETTLE-12", 8990), ("FILTER-100", 790)]
MERCHANTS = ["northwind", "bergland", "casa-verde", "hafenkontor", "lumen", "petit-atelier"]
EVENTS = ["order.paid", "order.shipped", "refund.created", "stock.low"]

Payload = dict[str, Any]


class Good(NamedTuple):
    """A kind of work: its payload, and its share of all work."""

    work: str
    weight: int
    make: Callable[[Random, int], Payload]


def _person(random: Random) -> tuple[str, str]:
    name = f"{random.choice(FIRST)} {random.choice(LAST)}"
    plain = name.lower().replace(" ", ".").encode("ascii", "ignore").decode()
    return name, f"{plain}@example.com"


def order(random: Random, number: int) -> Payload:
    name, email = _person(random)
    country, city, _ = random.choice(PLACES)
    lines = random.sample(THINGS, random.randint(1, 3))
    return {
        "order_id": f"ord_{48_000 + number}",
        "customer": {"name": name, "email": email, "phone": f"+41 79 {random.randint(100, 999)} 44 12"},
        "lines": [{"sku": sku, "quantity": random.randint(1, 3), "price": price} for sku, price in lines],
        "total": sum(price for _, price in lines),
        "currency": "EUR" if country != "CH" else "CHF",
        "card": {
            "token": f"tok_{random.getrandbits(64):016x}",
            "number": "4242 4242 4242 4242",
            "cvc": "737",
        },
        "address": {"street": f"Seestrasse {random.randint(1, 99)}", "city": city, "country": country},
    }


def invoice(random: Random, number: int) -> Payload:
    name, email = _person(random)
    return {"number": f"2026-{11_000 + number}", "name": name, "to": email, "smtp_password": "s3cr3t-Tulip"}


def hook(random: Random, number: int) -> Payload:
    return {
        "event_id": f"evt_{900_000 + number}",
        "event": random.choice(EVENTS),
        "merchant": random.choice(MERCHANTS),
        "signing_secret": f"whsec_{random.getrandbits(128):032x}",
    }


def contact(random: Random, number: int) -> Payload:
    name, email = _person(random)
    token = f"Bearer {random.getrandbits(160):040x}"
    return {"contact_id": f"c_{30_000 + number}", "name": name, "email": email, "authorization": token}


def report(random: Random, number: int) -> Payload:
    month = f"2026-{random.randint(1, 10):02}"
    return {"report_id": f"rep_{4_000 + number}", "merchant": random.choice(MERCHANTS), "month": month}


def ticket(random: Random, number: int) -> Payload:
    language = random.choice(["de", "fr", "it", "en", "es"])
    return {"ticket_id": f"tkt_{7_000 + number}", "language": language, "text": "Where is my parcel?"}


def feed(random: Random, number: int) -> Payload:
    return {"import_id": f"imp_{number}", "supplier": random.choice(["teahouse", "ceramica", "nordwares"])}


def refund(random: Random, number: int) -> Payload:
    return {"refund_id": f"re_{number}", "charge": f"ch_{random.getrandbits(64):016x}", "amount": 1490}


def payout(random: Random, number: int) -> Payload:
    iban = f"CH93 0076 2011 6238 52{random.randint(10, 99)} 7"
    return {
        "payout_id": f"po_{number}",
        "merchant": random.choice(MERCHANTS),
        "iban": iban,
        "amount": 182_300,
    }


GOODS = [
    Good("checkout", 32, order),
    Good("webhook.deliver", 18, hook),
    Good("invoice.send_email", 17, invoice),
    Good("crm.sync", 11, contact),
    Good("report", 9, report),
    Good("ticket.summarise", 5, ticket),
    Good("catalog.import", 4, feed),
    Good("refund.issue", 3, refund),
    Good("payout.transfer", 4, payout),
]
