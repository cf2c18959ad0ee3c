"""The work that Acme receives: orders, accounts, feeds and reports. A few of them always fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any, NamedTuple

from redrive.app import Redrive
from redrive.demo.folder import MISSING_COUNTRY
from redrive.demo.world import EXPIRED_CARD, NO_STREET, World

MAX_RUNS = 10_000
"""No new work arrives after this many runs, so that the database stays small."""

SECONDS_BETWEEN = 0.9
"""At this rate, the demo reaches MAX_RUNS after two and a half hours."""

PEOPLE = (
    "Mia Keller",
    "Luca Rossi",
    "Emma Dubois",
    "Noah Weber",
    "Sofia Marino",
    "Elias Novak",
    "Ingrid Berg",
)
CITIES = {
    "CH": "Zürich",
    "DE": "Berlin",
    "AT": "Wien",
    "FR": "Lyon",
    "IT": "Milano",
    "SE": "Malmö",
    MISSING_COUNTRY: "Oslo",
}
GOOD_CARD = "4242 4242 4242 4242"
MERCHANTS = ("alpine-goods", "nordlicht", "casa-bella", "kellerhof")
SUPPLIERS = ("east", "west", "south")


class TrafficWork(NamedTuple):
    """A workflow with its payload and idempotency key."""

    workflow: str
    payload: dict[str, Any]
    key: str


class Traffic:
    """Generates random work, the same for the same seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = Random(seed)
        self._numbers = count(1001)
        self.started: list[str] = []

    async def start(self, app: Redrive, work: TrafficWork) -> str:
        handle = await app.start(work.workflow, work.payload, key=work.key)
        self.started.append(handle.id)
        return handle.id

    def history(self, world: World) -> Iterator[TrafficWork]:
        """Yield work for the start of the demo: runs that succeed, and several for each kind of failure."""
        for number in range(12):
            yield self.order(country=MISSING_COUNTRY)
            yield self.order()
            if number < 6:
                yield self.order(card=EXPIRED_CARD)
                yield self.account()
            if number < 5:
                yield self.feed("north")
                yield self.feed()
            if number < 4:
                yield self.order(street=NO_STREET)
                yield self._refused_account(world)
            if number < 3:
                yield self.report("yearly")
                yield self.report()

    def _refused_account(self, world: World) -> TrafficWork:
        """Create an account whose key request fails once because Acme's credential is revoked."""
        work = self.account()
        world.break_("identity", by="history", about=work.payload["account"], after=1, times=1)
        return work

    def next(self) -> TrafficWork:
        kinds: tuple[Callable[[], TrafficWork], ...] = (
            self._some_order,
            self.account,
            self._some_feed,
            self._some_report,
        )
        return self._random.choices(kinds, (70, 8, 12, 10))[0]()

    def _some_order(self) -> TrafficWork:
        draw = self._random.random()
        if draw < 0.04:
            return self.order(country=MISSING_COUNTRY)
        if draw < 0.05:
            return self.order(card=EXPIRED_CARD)
        return self.order(street=NO_STREET) if draw < 0.06 else self.order()

    def _some_feed(self) -> TrafficWork:
        return self.feed("north") if self._random.random() < 0.04 else self.feed()

    def _some_report(self) -> TrafficWork:
        return self.report("yearly") if self._random.random() < 0.04 else self.report()

    def order(
        self, *, country: str | None = None, card: str = GOOD_CARD, street: str = "", name: str = ""
    ) -> TrafficWork:
        number, draw = next(self._numbers), self._random
        order, person = name or f"order-{number}", draw.choice(PEOPLE)
        country = country or draw.choice([code for code in CITIES if code != MISSING_COUNTRY])
        payload = {
            "order": order,
            "customer": {"name": person, "email": _email(person)},
            "sku": f"SKU-{draw.randrange(100, 999)}",
            "quantity": draw.randrange(1, 4),
            "cents": draw.randrange(990, 19_900, 10),
            "card": {"number": card, "cvc": "123"},
            "address": {
                "street": street or f"Hauptstrasse {draw.randrange(1, 90)}",
                "city": CITIES[country],
                "country": country,
            },
        }
        return TrafficWork("checkout", payload, order)

    def account(self, name: str = "") -> TrafficWork:
        number, person = next(self._numbers), self._random.choice(PEOPLE)
        account = name or f"account-{number}"
        secret = f"{self._random.getrandbits(64):016x}"
        payload = {"account": account, "email": _email(person), "password": secret, "plan": "team"}
        return TrafficWork("provisioning", payload, account)

    def feed(self, supplier: str = "") -> TrafficWork:
        name = f"feed-{supplier or self._random.choice(SUPPLIERS)}-{next(self._numbers)}"
        return TrafficWork("import", {"feed": name}, name)

    def report(self, period: str = "daily") -> TrafficWork:
        merchant = self._random.choice(MERCHANTS)
        name = f"report-{merchant}-{next(self._numbers)}-{period}"
        return TrafficWork("report", {"report": name, "to": f"{merchant}@example.com"}, name)


def _email(person: str) -> str:
    return f"{person.lower().replace(' ', '.')}@example.com"
